"""What belongs to whom inside Gradio: session hashes, event ids, upload ids, uploaded paths, and bytes spent.

In memory, as Gradio's own queue is: one Gradio process for each port. Used on the event loop only, so without locks.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from portal.errors import Busy, PortalError

Owner = tuple[str, str]
"""Tenant id and member id."""

Clock = Callable[[], float]


class Bindings:
    """Names and the members they are bound to; idle ones expire.

    A member who binds too many loses its own oldest, never another's: else a flood of one would free the names
    of all. When `max_names` are alive, a new one is refused.
    """

    def __init__(
        self,
        *,
        idle_seconds: float,
        max_names_per_owner: int,
        max_names: int = 200_000,
        clock: Clock = time.monotonic,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._max_names_per_owner = max_names_per_owner
        self._max_names = max_names
        self._clock = clock
        self._last_use: dict[Owner, OrderedDict[str, float]] = {}
        self._owners: dict[str, set[Owner]] = {}

    def claim(self, name: str, owner: Owner) -> bool:
        """Binds a free name to `owner`. False when it is another's, which changes nothing."""
        others = self._owners.get(name, set()) - {owner}
        if any(self._is_alive(name, other) for other in others):
            return False
        self.share(name, owner)
        return True

    def share(self, name: str, owner: Owner) -> None:
        """Adds `owner` to those who own the name. Raises Busy when there is no room."""
        if name not in self._last_use.get(owner, ()):
            self._make_room(owner)
        mine = self._last_use.setdefault(owner, OrderedDict())
        mine[name] = self._clock()
        mine.move_to_end(name)
        self._owners.setdefault(name, set()).add(owner)

    def owns(self, name: str, owner: Owner) -> bool:
        """True when the name is bound to `owner`; that counts as a use."""
        if owner not in self._owners.get(name, ()) or not self._is_alive(name, owner):
            return False
        self.share(name, owner)
        return True

    def _make_room(self, owner: Owner) -> None:
        mine = self._last_use.get(owner, OrderedDict())
        if len(mine) >= self._max_names_per_owner:
            self._forget(next(iter(mine)), owner)
        if len(self._owners) >= self._max_names:
            self._forget_expired()
        if len(self._owners) >= self._max_names:
            raise Busy("Too many pages are open in this portal.")

    def _is_alive(self, name: str, owner: Owner) -> bool:
        if self._clock() - self._last_use[owner][name] <= self._idle_seconds:
            return True
        self._forget(name, owner)
        return False

    def _forget_expired(self) -> None:
        for owner, names in list(self._last_use.items()):
            for name in list(names):
                self._is_alive(name, owner)

    def _forget(self, name: str, owner: Owner) -> None:
        names = self._last_use[owner]
        del names[name]
        if not names:
            del self._last_use[owner]
        owners = self._owners[name]
        owners.discard(owner)
        if not owners:
            del self._owners[name]


class UploadBudgetSpent(PortalError):
    """A member has uploaded as many bytes as the window allows."""

    code = "upload_budget_spent"
    kind = "over_quota"
    remedy = "Wait as long as Retry-After says, or upload smaller files."


@dataclass(slots=True)
class _Window:
    ends_at: float
    used_bytes: int = 0


class UploadBudget:
    """Bytes that each member may upload within a window of time, counted as they arrive."""

    def __init__(self, *, bytes_per_member: int, window_seconds: float, clock: Clock = time.monotonic) -> None:
        self._bytes_per_member = bytes_per_member
        self._window_seconds = window_seconds
        self._clock = clock
        self._windows: dict[Owner, _Window] = {}

    def check(self, owner: Owner, size_bytes: int) -> None:
        """Raises UploadBudgetSpent when `size_bytes` more would not fit; counts nothing."""
        window = self._window(owner)
        if window.used_bytes + size_bytes > self._bytes_per_member:
            raise UploadBudgetSpent(
                f"You may upload {self._bytes_per_member} bytes within {round(self._window_seconds)} seconds.",
                retry_after_seconds=max(1, round(window.ends_at - self._clock())),
            )

    def spend(self, owner: Owner, size_bytes: int) -> None:
        """Counts bytes that have arrived. Raises UploadBudgetSpent when they go past the budget."""
        self.check(owner, size_bytes)
        self._window(owner).used_bytes += size_bytes

    def _window(self, owner: Owner) -> _Window:
        now = self._clock()
        window = self._windows.get(owner)
        if window is None or window.ends_at <= now:
            self._windows = {key: value for key, value in self._windows.items() if value.ends_at > now}
            window = self._windows[owner] = _Window(now + self._window_seconds)
        return window
