"""The weight store: a thin process (no torch) that has a loader fill a segment, then hands it to readers of its user.

`python -m ocr_shared_weights.store --socket PATH --checkpoint FOLDER --transport memfd [--engine-args JSON]`. An open
connection is a lease. The store ends at SIGTERM; readers of memfd and cuda_vmm go on without it.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from .faults import SharedWeightsError
from .manifest import Manifest
from .private_folders import make_private_folder_of, while_bound
from .transports import Handle
from .transports.memfd import refuse_unsealed
from .wire import BrokenConversation, Peer, peer_of, receive, send

_log = logging.getLogger("vllm.shared_weights.store")
_ASK_SECONDS = 10
_MAX_CONNECTIONS = 64
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Publication:
    """What the loader made. `channel` is open while the loader lives on (cuda_ipc), else None."""

    manifest: Manifest
    handle: Handle
    channel: socket.socket | None


@dataclass(frozen=True)
class Lease:
    """A reader that is attached. `since` is seconds of the epoch."""

    name: str
    pid: int
    since: float


@dataclass
class Store:
    """Serves one publication. `leases` are by connection number."""

    publication: Publication
    leases: dict[int, Lease] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, listener: socket.socket) -> NoReturn:
        """Answers until the process ends."""
        number = 0
        while True:
            connection, _ = listener.accept()
            number += 1
            if threading.active_count() > _MAX_CONNECTIONS:
                _log.warning("refused a connection: %d are open", _MAX_CONNECTIONS)
                connection.close()
                continue
            threading.Thread(target=self._converse, args=(connection, number), daemon=True).start()

    def _converse(self, connection: socket.socket, number: int) -> None:
        with connection:
            peer = peer_of(connection)
            connection.settimeout(_ASK_SECONDS)
            try:
                self._answer(connection, peer, number)
            except (OSError, BrokenConversation) as error:
                _log.warning("pid %d went away or sent nonsense: %s", peer.pid, error)

    def _answer(self, connection: socket.socket, peer: Peer, number: int) -> None:
        asked = receive(connection)
        if asked.descriptor is not None:
            os.close(asked.descriptor)
        if peer.uid != os.geteuid():
            _log.warning("refused pid %d of uid %d: this store serves uid %d", peer.pid, peer.uid, os.geteuid())
            send(connection, _refusal(f"The store serves uid {os.geteuid()} and you are uid {peer.uid}."))
        elif asked.body.get("ask") == "status":
            send(connection, self.status())
        elif asked.body.get("ask") == "attach":
            self._lend(connection, Lease(str(asked.body.get("name"))[:80], peer.pid, time.time()), number)
        else:
            send(connection, _refusal("The store knows 'attach' and 'status'."))

    def _lend(self, connection: socket.socket, lease: Lease, number: int) -> None:
        with self.lock:
            handle = self._handle()
            self.leases[number] = lease
        try:
            manifest = self.publication.manifest.to_json()
            answer = {"ok": True, "manifest": manifest, "handle": dict(handle.values)}
            send(connection, answer, handle.descriptor)
            _log.info("attached: %s, pid %d; %d now", lease.name, lease.pid, len(self.leases))
            connection.settimeout(None)
            while connection.recv(4096):  # a reader has nothing to say; the end of its socket ends the lease
                pass
        finally:
            with self.lock:
                del self.leases[number]
            _log.info("detached: %s, pid %d; %d now", lease.name, lease.pid, len(self.leases))

    def _handle(self) -> Handle:
        channel = self.publication.channel
        if channel is None:
            return self.publication.handle
        send(channel, {"ask": "export"})
        return Handle(receive(channel).body["handle"])

    def status(self) -> dict[str, Any]:
        """What it holds and who reads it, without the list of tensors."""
        manifest = self.publication.manifest
        with self.lock:
            leases = [{"name": one.name, "pid": one.pid, "since": one.since} for one in self.leases.values()]
        return {
            "ok": True,
            "pid": os.getpid(),
            "transport": manifest.transport,
            "checkpoint": manifest.checkpoint.path,
            "sha256": manifest.checkpoint.sha256,
            "total_bytes": manifest.total_bytes,
            "tensors": len(manifest.tensors),
            "made_at": manifest.made_at,
            "loading": dict(manifest.loading),
            "leases": leases,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Loads, publishes and serves. Status 3: refused, with the reason on standard error."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s store %(levelname)s %(message)s")
    signal.signal(signal.SIGTERM, _end)
    try:
        with _only_one(given.socket):
            publication = _published(given.loader or _loader_command(given))
            with _listening(given.socket) as listener:
                _log.info(
                    "ready at %s: %.0f MB by %s",
                    given.socket,
                    publication.manifest.total_bytes / 1e6,
                    publication.manifest.transport,
                )
                Store(publication).serve(listener)
    except SharedWeightsError as error:
        _log.error("%s %s", error.message, error.remedy)
        return 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ocr_shared_weights.store", description=__doc__)
    parser.add_argument(
        "--socket", type=Path, required=True, help="Unix socket; its folder is made for its owner alone"
    )
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--transport", required=True, help="memfd, cuda_vmm or cuda_ipc")
    parser.add_argument("--engine-args", default="[]", help="the instances' vLLM options, as a JSON list")
    parser.add_argument("--loader", type=json.loads, help="another command than vLLM's loader, as a JSON list")
    return parser


def _loader_command(given: argparse.Namespace) -> list[str]:
    module = f"{__package__}.loader"
    options = [
        "--checkpoint",
        str(given.checkpoint),
        "--transport",
        given.transport,
        "--engine-args",
        given.engine_args,
    ]
    return [sys.executable, "-m", module, *options]


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Two stores at one socket would take readers from each other. The lock dies with its process."""
    make_private_folder_of(path)
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise SharedWeightsError(
            f"Another store (pid {holder or 'unknown'}) holds {path}.", "Use it, or stop it first."
        ) from error
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    try:
        yield
    finally:
        os.close(descriptor)


def _published(command: Sequence[str]) -> Publication:
    """Runs the loader. Raises SharedWeightsError with its reason, or with how it died."""
    ours, theirs = socket.socketpair()
    with theirs:
        descriptor = theirs.fileno()
        loader = subprocess.Popen(  # noqa: S603
            [*command, "--channel", str(descriptor)],
            pass_fds=[descriptor],
            preexec_fn=_die_with_parent,  # no thread runs yet
        )
    try:
        said = receive(ours)
    except BrokenConversation:
        raise _death(loader.wait()) from None
    if not said.body.get("ok"):
        loader.wait()
        raise SharedWeightsError(str(said.body.get("message")), str(said.body.get("remedy")))
    publication = _checked(said.body, said.descriptor, ours)
    if publication.channel is None:
        ours.close()
        loader.wait()
    else:
        threading.Thread(target=_end_with, args=(loader,), daemon=True).start()
    return publication


def _checked(body: dict[str, Any], descriptor: int | None, channel: socket.socket) -> Publication:
    manifest = Manifest.from_json(body["manifest"])
    if manifest.transport == "memfd":
        if descriptor is None:
            raise SharedWeightsError("The loader gave no segment.", "Restart the store with this release.")
        refuse_unsealed(descriptor, manifest.total_bytes)
    lives_on = manifest.transport == "cuda_ipc"
    return Publication(manifest, Handle(body["handle"], descriptor), channel if lives_on else None)


def _death(status: int) -> SharedWeightsError:
    if status == -signal.SIGKILL:
        return SharedWeightsError(
            "The loader was killed (signal 9) before the weights were whole, most likely for want of memory.",
            "Give the unit or container twice the checkpoint's size in host memory while it loads.",
        )
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return SharedWeightsError(f"The loader ended with {how} before the weights were whole.", "Its log says why.")


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Bound under another name first, so that the socket appears whole and takes a dead one's place."""
    fresh = while_bound(path, os.getpid())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
        fresh.unlink(missing_ok=True)
        listener.bind(str(fresh))
        fresh.chmod(0o600)
        listener.listen(_MAX_CONNECTIONS)
        fresh.rename(path)
        try:
            yield listener
        finally:
            with suppress(FileNotFoundError):
                path.unlink()


def _refusal(message: str) -> dict[str, Any]:
    return {"ok": False, "message": message, "remedy": "Run store and instances as one user, of one release."}


def _end(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def _end_with(loader: subprocess.Popen[bytes]) -> NoReturn:
    _log.error("the loader ended with status %s and the weights with it: the store ends", loader.wait())
    os._exit(4)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
