"""The fleet as the portal sees it: asked through its control, in the background, with what came of the last look."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from portal.errors import PortalError, Unavailable
from portal.fleet.lookout import Lookout
from portal.serving.control_client import FleetControl
from portal.serving.fleet_status import FleetStatus, read_status
from portal.settings import FleetSettings

FRESH_SECONDS = 2.0
WAIT_SECONDS = 3.0
_REFRESH_SECONDS = 10.0
_KNOWN_SECONDS = 60.0
_RATE_SECONDS = 60.0
_SHORTEST_RATE_SECONDS = 4.0


@dataclass(frozen=True)
class FleetSight:
    """What one look found: the status, or why there is none. `answers_a_minute` by an instance's number."""

    status: FleetStatus | None = None
    trouble: PortalError | None = None
    answers_a_minute: Mapping[int, float] = field(default_factory=dict)

    @property
    def workers(self) -> tuple[int, int] | None:
        """Instances that read, of all; None when unknown."""
        return None if self.status is None else (self.status.ready_count, len(self.status.instances))

    @property
    def words(self) -> str | None:
        """What keeps it from being whole, in words without an address; None when nothing does."""
        if self.status is None:
            return "The fleet does not answer, or not as one."
        ready, total = self.status.ready_count, len(self.status.instances)
        if ready < total:
            return f"{ready} of {total} instances are ready."
        return None if self.status.router.state == "ready" else f"The fleet's router is {self.status.router.state}."


class FleetWatch:
    """Looks at one fleet. `control` is what steers it; `address` how people know it, which holds no secret."""

    def __init__(self, control: FleetControl, address: str) -> None:
        self.control, self.address = control, address
        self._counts: deque[tuple[float, dict[int, tuple[int, int]]]] = deque()
        self._lookout = Lookout(self._look, name="fleet-watch")

    def sight(self, *, since: float | None = None, wait_seconds: float = WAIT_SECONDS) -> FleetSight:
        """A look that began at `since` (monotonic; by default within the last two seconds) or later.

        Waits for it so long at most; then what is known is that the fleet does not answer.
        """
        began_at = time.monotonic() - FRESH_SECONDS if since is None else since
        look = self._lookout.at_least(began_at, wait_seconds=wait_seconds)
        return look.seen if look is not None else FleetSight(trouble=_silent(self.address, wait_seconds))

    def glance(self) -> FleetSight | None:
        """What was seen last, within a minute, without waiting; None when nothing was."""
        look = self._lookout.newest(within_seconds=_KNOWN_SECONDS, refresh_seconds=_REFRESH_SECONDS)
        return look.seen if look is not None else None

    def _look(self) -> FleetSight:
        try:
            status = read_status(self.control.status())
        except PortalError as error:
            return FleetSight(trouble=error)
        return FleetSight(status, None, self._rates(status))

    def _rates(self, status: FleetStatus) -> dict[int, float]:
        """By the oldest look of the last minute in which the same process ran."""
        now = time.monotonic()
        counts = {
            instance.number: (instance.starts, instance.finished_requests)
            for instance in status.instances
            if instance.finished_requests is not None
        }
        self._counts.append((now, counts))
        while now - self._counts[0][0] > _RATE_SECONDS:
            self._counts.popleft()
        found = {number: self._rate(number, now, *count) for number, count in counts.items()}
        return {number: rate for number, rate in found.items() if rate is not None}

    def _rate(self, number: int, now: float, starts: int, finished: int) -> float | None:
        for at, counts in self._counts:
            before = counts.get(number)
            if before is not None and before[0] == starts and now - at >= _SHORTEST_RATE_SECONDS:
                return max(0, finished - before[1]) * 60 / (now - at)
        return None


def configured_fleet(settings: FleetSettings) -> FleetWatch | None:
    """The fleet that PORTAL_FLEET_URL names; None when it names none."""
    url = settings.fleet_url
    if url is None:
        return None
    if url.startswith("/"):
        return FleetWatch(FleetControl(socket_path=Path(url)), url)
    token = settings.fleet_token
    return FleetWatch(FleetControl(url=url, token=token.get_secret_value() if token else None), url)


def _silent(address: str, seconds: float) -> Unavailable:
    return Unavailable(
        f"The fleet at {address} has not answered within {seconds:.0f} seconds.",
        remedy="See whether the GPU box is up, and what its supervisor logs; this page asks again by itself.",
    )
