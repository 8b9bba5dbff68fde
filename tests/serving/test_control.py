"""The control over TCP opens to the token alone; what is no command is refused in words."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.errors import Conflict, NotFound, SettingsError, Unavailable
from portal.serving.configuration import FleetConfiguration, load
from portal.serving.control_client import FleetControl
from portal.serving.control_server import read_token, serving_control
from portal.serving.failures import Failures
from portal.serving.parts import reason_in
from portal.serving.probing import parsed
from tests.serving.fleets import free_ports

TOKEN = "t" * 32


class ScriptedSupervisor:
    """Answers as a supervisor does, and remembers what it was told."""

    def __init__(self, fleet: Any) -> None:
        self.fleet, self.told = fleet, []

    async def status(self) -> dict[str, Any]:
        return {"instances": []}

    async def drain(self, number: int) -> None:
        raise Conflict(f"instance-{number} is the only one that reads.", remedy="Restart it.")

    async def restart(self, numbers: list[int] | None = None) -> None:
        self.told.append(numbers)

    def down(self) -> None:
        self.told.append("down")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A control on a Unix socket and on TCP, in a loop of its own."""
    (port,) = free_ports(1)
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "fleet.toml").write_text(
        f'checkpoint = "/c"\nserved_name = "o"\nvllm_python = "/none/bin/python"\nrun_dir = "{tmp_path}"\n'
        f'[control]\nport = {port}\ntoken_file = "{tmp_path / "token"}"\n'
    )
    supervisor = ScriptedSupervisor(load(tmp_path / "fleet.toml"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with serving_control(supervisor, loop):  # type: ignore[arg-type]
        yield SimpleNamespace(
            supervisor=supervisor,
            unix=FleetControl(socket_path=tmp_path / "control.sock"),
            url=f"http://127.0.0.1:{port}",
        )
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_commands_arrive_over_both_ways(served: SimpleNamespace) -> None:
    over_tcp = FleetControl(url=served.url, token=TOKEN)
    assert over_tcp.status() == served.unix.status() == {"instances": []}
    served.unix.restart()
    over_tcp.restart(3)
    served.unix.down()
    assert served.supervisor.told[:2] == [None, [3]]
    with pytest.raises(Conflict, match="instance-1 is the only one") as refused:
        over_tcp.drain(1)
    assert refused.value.remedy == "Restart it."


def test_no_thread_is_left_when_the_control_ends_or_cannot_listen(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    before, loop = set(threading.enumerate()), asyncio.new_event_loop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        control = {"port": taken.getsockname()[1], "token_file": tmp_path / "token"}
        for given, listens in ((control, False), ({}, True)):
            fleet = FleetConfiguration.model_validate(
                {"checkpoint": "/c", "served_name": "o", "vllm_python": "/p", "run_dir": tmp_path, "control": given}
            )
            supervisor: Any = ScriptedSupervisor(fleet)
            refusal = nullcontext() if listens else pytest.raises(SettingsError, match="cannot listen")
            with refusal, serving_control(supervisor, loop):
                assert listens
            assert set(threading.enumerate()) == before
            assert not fleet.control_socket.exists()
    loop.close()


@pytest.mark.parametrize("token", [None, "", "t" * 31, "T" * 32])
def test_tcp_is_closed_to_whoever_lacks_the_token(served: SimpleNamespace, token: str | None) -> None:
    with pytest.raises(Unavailable, match="token is missing or wrong"):
        FleetControl(url=served.url, token=token).restart()
    assert served.supervisor.told == []


def test_unknown_command_is_refused(served: SimpleNamespace) -> None:
    for path in ("/", "/instances/-1/drain", "/instances/1/kill", "/../status"):
        with pytest.raises(NotFound, match="no such command"):
            served.unix._ask("POST", path)


def test_verify_says_what_is_missing_when_vllm_is_not_there(served: SimpleNamespace) -> None:
    with pytest.raises(Unavailable, match="could not be verified"):
        served.unix.verify()


@pytest.mark.parametrize(("mode", "text", "reason"), [(0o644, TOKEN, "read by others"), (0o600, "short", "5 charac")])
def test_token_is_refused_when_it_is_open_or_short(tmp_path: Path, mode: int, text: str, reason: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(SettingsError, match=reason):
        read_token(path)


def test_backoff_doubles_to_its_cap_and_a_crash_loop_is_one_only_within_its_window() -> None:
    now = [0.0]
    patience = SimpleNamespace(
        first_backoff_seconds=1.0, longest_backoff_seconds=5.0, failures=5, failures_window_seconds=100.0
    )
    failures = Failures(patience, clock=lambda: now[0])  # type: ignore[arg-type]
    waits = []
    for _ in range(4):
        failures.add()
        waits.append(failures.backoff_seconds)
    assert waits == [1.0, 2.0, 4.0, 5.0]
    assert not failures.is_crash_loop
    failures.add()
    assert failures.is_crash_loop
    now[0] = 101.0
    assert not failures.is_crash_loop
    assert failures.total == 5


def test_activity_is_read_from_labelled_metrics() -> None:
    found = parsed(
        "# HELP vllm:num_requests_running x\n"
        'vllm:num_requests_running{engine="0",model_name="a{b}"} 2.0\n'
        'vllm:num_requests_waiting{engine="0"} 1.0\n'
        'vllm:num_requests_waiting_by_reason{engine="0"} 9.0\n'
        'vllm:prompt_tokens_total{engine="0"} 1e+03\nvllm:generation_tokens_total{engine="0"} 24.0\n'
        'vllm:request_success_total{reason="stop"} 3.0\nvllm:request_success_total{reason="length"} 1.0\n'
    )
    assert (found.running, found.waiting, found.finished, found.progress) == (2, 1, 4, 1028.0)


def test_reason_is_that_of_the_plugin_when_many_processes_complain() -> None:
    log = (
        "(Worker pid=1) ERROR ocr_shared_weights.faults.SharedWeightsError: No weight store answers at /s. Start it.\n"
        "(EngineCore) RuntimeError: Worker failed\n(APIServer) RuntimeError: Engine core initialization failed.\n"
    )
    assert reason_in(log) == "No weight store answers at /s. Start it."
    assert reason_in("a\nOSError: disk\nbye") == "OSError: disk"
    assert reason_in("all is well") == ""
