"""How many costly reads a tenant may have under way in this process.

Searches go through all its texts; exports fill a file on disk until it is downloaded. A cap, not a queue: who comes too
often is told so at once and loses nothing. Other tenants are not touched by it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from portal.errors import Busy

MAX_SEARCHES = 2
MAX_EXPORTS = 2
_SEARCH_RETRY_SECONDS = 3
_EXPORT_RETRY_SECONDS = 15


class TenantCap:
    """At most `limit` at once for each tenant. Safe to share between threads."""

    def __init__(self, limit: int, refusal: Callable[[], Busy]) -> None:
        self._limit, self._refusal = limit, refusal
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @contextmanager
    def one(self, tenant_id: str) -> Iterator[None]:
        """Counts one of the tenant while the block runs. Raises Busy when it has as many as it may."""
        with self._lock:
            if self._held[tenant_id] >= self._limit:
                raise self._refusal()
            self._held[tenant_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[tenant_id] -= 1
                self._held += Counter()  # forgets the tenants with none


_search_busy = partial(
    Busy,
    f"{MAX_SEARCHES} searches of your tenant are running already.",
    code="search_busy",
    remedy="Wait until one has ended, then search again.",
    retry_after_seconds=_SEARCH_RETRY_SECONDS,
)
_export_busy = partial(
    Busy,
    f"{MAX_EXPORTS} exports of your tenant are being made or downloaded already.",
    code="export_busy",
    remedy="Wait until one has been downloaded, then export again.",
    retry_after_seconds=_EXPORT_RETRY_SECONDS,
)


@dataclass(frozen=True)
class HeavyReads:
    """The caps of one process."""

    searches: TenantCap = field(default_factory=lambda: TenantCap(MAX_SEARCHES, _search_busy))
    exports: TenantCap = field(default_factory=lambda: TenantCap(MAX_EXPORTS, _export_busy))
