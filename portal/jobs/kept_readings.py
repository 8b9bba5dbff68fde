"""Pages that were read and wait for a server beside the engine, so that nobody reads them again for it.

In memory: what is lost is read again. Not for longer than a page may wait, and not after the page was cancelled or
deleted, which the dispatcher looks for.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection
from threading import Lock
from typing import Final

from portal.page_text import PageText

MOST_KEPT: Final = 256
KEPT_SECONDS: Final = 900.0  # the longest wait (portal/jobs/handbacks.py), and some for the page's turn


class KeptReadings:
    """The latest readings by page id. Any thread may call it."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, tuple[float, PageText]] = OrderedDict()
        self._lock = Lock()

    def keep(self, page_id: str, page: PageText) -> None:
        """Keeps the reading of that page, at most MOST_KEPT of them."""
        with self._lock:
            self._pages[page_id] = (time.monotonic(), page)
            self._pages.move_to_end(page_id)
            while len(self._pages) > MOST_KEPT:
                self._pages.popitem(last=False)

    def take(self, page_id: str) -> PageText | None:
        """The reading of that page, once; None when it is not kept."""
        with self._lock:
            return self._pages.pop(page_id, (0.0, None))[1]

    def page_ids(self) -> list[str]:
        """Whose readings are kept; those that are too old are dropped."""
        oldest = time.monotonic() - KEPT_SECONDS
        with self._lock:
            for page_id in [page_id for page_id, (kept_at, _) in self._pages.items() if kept_at < oldest]:
                del self._pages[page_id]
            return list(self._pages)

    def drop(self, page_ids: Collection[str]) -> None:
        """Forgets those readings."""
        with self._lock:
            for page_id in page_ids:
                self._pages.pop(page_id, None)
