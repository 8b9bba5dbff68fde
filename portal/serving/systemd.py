"""Tells systemd that the fleet is ready and alive (`Type=notify`, `WatchdogSec=`); does nothing elsewhere."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(*lines: str) -> None:
    """Sends such as READY=1, WATCHDOG=1, STOPPING=1 or STATUS=… (sd_notify's protocol: a datagram)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
        connection.sendto("\n".join(lines).encode(), "\0" + address[1:] if address.startswith("@") else address)


def watchdog_seconds() -> float | None:
    """How often to say WATCHDOG=1: half of what systemd waits; None when it does not."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 2e6 if microseconds.isdigit() else None
