"""A loader without torch, for tests of the store: it publishes a few bytes, or fails in a way that is asked for."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import sys
import time
from pathlib import Path

from portal.serving.shared_weights.faults import SharedWeightsError
from portal.serving.shared_weights.manifest import Checkpoint, Manifest, TensorEntry
from portal.serving.shared_weights.transports.memfd import Memfd
from portal.serving.shared_weights.wire import send

CONTENT = bytes(range(256)) * 4096


def manifest(transport: str = "memfd") -> Manifest:
    entry = TensorEntry("weight", "parameter", "uint8", (len(CONTENT),), 0, len(CONTENT), "not looked at")
    checkpoint = Checkpoint("/checkpoints/fake", "0" * 64, ())
    return Manifest(checkpoint, {"dtype": "uint8"}, (entry,), {}, len(CONTENT), transport, time.time())


def main() -> None:
    behaviour, started = sys.argv[1], Path(sys.argv[2])
    channel = socket.socket(fileno=int(sys.argv[sys.argv.index("--channel") + 1]))
    started.write_text(str(os.getpid()))
    if behaviour == "dies":
        sys.exit(7)
    if behaviour == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "hangs":
        time.sleep(600)
    if behaviour == "half":
        channel.sendall(b"\x00\x00\x10\x00\x00{")
        sys.exit(0)
    try:
        publish(channel, sealed=behaviour != "unsealed")
    except SharedWeightsError as error:
        send(channel, {"ok": False, "message": error.message, "remedy": error.remedy})


def publish(channel: socket.socket, *, sealed: bool) -> None:
    if sealed:
        segment = Memfd().create(len(CONTENT), "cpu")
        segment._mapping[:] = CONTENT
        segment.seal()
        descriptor = segment.export().descriptor
    else:
        descriptor = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, len(CONTENT))
        mmap.mmap(descriptor, len(CONTENT))[:] = CONTENT
    send(channel, {"ok": True, "manifest": manifest().to_json(), "handle": {}}, descriptor)


if __name__ == "__main__":
    main()
