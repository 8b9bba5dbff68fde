"""The store lends one sealed segment to readers of its user, and fails whole: nobody ever reads half-made weights."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from portal.serving.shared_weights import client
from portal.serving.shared_weights.client import Attachment
from portal.serving.shared_weights.faults import SharedWeightsError
from portal.serving.shared_weights.transports.memfd import SEALS, mapped
from tests.running_portal import ROOT
from tests.serving.conftest import Attach, RunningStore, StoreStarter, wait_for
from tests.serving.fake_loader import CONTENT


def _content(attachment: Attachment) -> bytes:
    assert attachment.handle.descriptor is not None
    return bytes(mapped(os.dup(attachment.handle.descriptor), attachment.manifest.total_bytes))


def test_reader_maps_what_the_loader_wrote_and_holds_a_lease(store: RunningStore, attach: Attach) -> None:
    reader = attach(store, "first")
    assert _content(reader) == CONTENT
    assert store.lease_names() == ["first"]
    reader.lease.close()
    wait_for(lambda: store.lease_names() == [])
    assert "attached: first" in store.log
    assert "detached: first" in store.log


def test_nobody_can_write_or_shrink_the_segment_when_it_is_lent(store: RunningStore, attach: Attach) -> None:
    import fcntl
    import mmap

    descriptor = attach(store, "reader").handle.descriptor
    assert descriptor is not None
    assert fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & SEALS == SEALS
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, len(CONTENT), mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


def test_lease_ends_when_its_reader_is_killed(store: RunningStore) -> None:
    script = (
        "import sys, time; from pathlib import Path; from portal.serving.shared_weights import client;"
        "held = client.attach(Path(sys.argv[1]), name='doomed'); time.sleep(600)"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    reader = subprocess.Popen([sys.executable, "-c", script, str(store.socket)], env=environ)
    wait_for(lambda: store.lease_names() == ["doomed"])
    reader.kill()
    reader.wait()
    wait_for(lambda: store.lease_names() == [])


def test_reader_goes_on_and_a_new_store_can_stand_when_the_store_is_killed(
    store: RunningStore, start_store: StoreStarter, attach: Attach
) -> None:
    reader = attach(store, "survivor")
    store.process.kill()
    store.process.wait()
    assert store.socket.exists()  # a stale socket: it must be in nobody's way
    with pytest.raises(SharedWeightsError, match="No weight store answers"):
        client.attach(store.socket, name="late")
    assert _content(reader) == CONTENT
    again = start_store()
    again.wait_until_ready()
    assert _content(attach(again, "late")) == CONTENT


def test_exactly_one_store_stands_when_two_race(start_store: StoreStarter) -> None:
    first, second = start_store(), start_store()
    wait_for(lambda: first.process.poll() is not None or second.process.poll() is not None)
    loser, winner = (first, second) if first.process.poll() is not None else (second, first)
    assert loser.process.wait() == 3
    assert re.search(rf"Another store \(pid ({winner.process.pid}|unknown)\) holds", loser.log)
    winner.wait_until_ready()
    assert not loser.loader_pid.exists()


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("dies", "ended with status 7"),
        ("killed", "want of memory"),
        ("half", "before the weights were whole"),
        ("unsealed", "not sealed"),
    ],
)
def test_store_ends_with_the_reason_when_publishing_fails(
    start_store: StoreStarter, behaviour: str, reason: str
) -> None:
    store = start_store(behaviour)
    assert store.process.wait(timeout=60) == 3
    assert reason in store.log
    assert not store.socket.exists()


def test_publishing_is_refused_in_words_when_file_sizes_are_limited(start_store: StoreStarter) -> None:
    store = start_store(prefix=("sh", "-c", 'ulimit -f 100; exec "$@"', "sh"))
    assert store.process.wait(timeout=60) == 3
    assert "cannot reserve" in store.log
    assert "ulimit -f unlimited" in store.log


def test_loader_ends_too_when_the_store_is_killed_while_loading(start_store: StoreStarter) -> None:
    store = start_store("hangs")
    wait_for(lambda: store.loader_pid.exists() and store.loader_pid.read_text() != "")
    store.process.kill()
    store.process.wait()
    wait_for(lambda: _is_gone(int(store.loader_pid.read_text())))
    assert not store.socket.exists()


def test_attaching_fails_in_words_when_the_store_is_killed_in_its_midst(store: RunningStore) -> None:
    store.process.send_signal(signal.SIGSTOP)  # connecting still works, an answer never comes
    threading.Timer(1, store.process.kill).start()
    with pytest.raises(SharedWeightsError, match="ended, or did not answer"):
        client.attach(store.socket, name="unlucky")


def test_store_answers_others_when_one_sends_nonsense_or_nothing(store: RunningStore, attach: Attach) -> None:
    silent = socket.socket(socket.AF_UNIX)
    silent.connect(str(store.socket))
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x02\x00[]", b"\x00"):
        with socket.socket(socket.AF_UNIX) as rude:
            rude.connect(str(store.socket))
            rude.sendall(nonsense)
    assert _content(attach(store, "polite")) == CONTENT
    silent.close()


def test_another_user_is_refused(store: RunningStore, tmp_path: Path) -> None:
    assert store.socket.parent.stat().st_mode & 0o777 == 0o700
    if os.geteuid() != 0:
        return  # only root can become another user; for all others the folder's mode is what can be looked at
    for folder in (store.socket.parent, *store.socket.parent.parents):  # as if an operator had opened the way
        if folder == Path("/"):
            break
        if folder.stat().st_mode & 0o005 != 0o005 and tmp_path.parts[:3] == folder.parts[:3]:
            folder.chmod(folder.stat().st_mode | 0o055)
    store.socket.chmod(0o666)
    script = (
        "import os, sys; from pathlib import Path; from portal.serving.shared_weights import client;"
        "os.setuid(65534); client.attach(Path(sys.argv[1]), name='stranger')"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(store.socket)], env=environ, capture_output=True, text=True
    )
    assert "The store serves uid 0 and you are uid 65534" in done.stderr
    assert "refused pid" in store.log
    assert store.lease_names() == []


def test_store_refuses_a_folder_of_everybody() -> None:
    options = ["--socket", "/tmp/weights.sock", "--checkpoint", "/x", "--transport", "memfd", "--loader", '["true"]']
    done = subprocess.run(
        [sys.executable, "-m", "portal.serving.shared_weights.store", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "folder of everybody" in done.stderr


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z"
    except FileNotFoundError:
        return True
