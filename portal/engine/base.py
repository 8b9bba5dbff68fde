"""The one contract that every engine keeps: a page image and a task prompt in, a PageText out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from portal.domain import EngineCapability, PageImage, TaskPrompt
from portal.page_text import PageText


@dataclass(frozen=True, slots=True)
class Call:
    """What an engine is told about one call beside the page. A lower `priority` is sooner, where the engine has any.

    `reading` is the page as it was read before, where only a server beside the engine has failed since: it is not read
    again. Such a server has `second_seconds` (None: no bound), which begin when the engine calls `on_read`: from then
    on the engine itself is not needed any more.
    `ends_at` is the time of the event loop at which nobody waits for the engine any more, None where that is not fixed.
    """

    request_id: str = ""
    priority: int = 0
    reading: PageText | None = None
    second_seconds: float | None = None
    on_read: Callable[[], None] | None = None
    ends_at: float | None = None


PLAIN_CALL: Final = Call()


def priority_of(weight: float) -> int:
    """The priority of calls for a tenant of that weight, as vLLM has it: 0 for the usual one of 1, lower is sooner."""
    return round(10 * (1 - min(weight, 10.0)))


class Engine(Protocol):
    """Turns page images into text. Pages are independent of each other; up to `slots` may be asked at once."""

    @property
    def capability(self) -> EngineCapability:
        """What it can do, shown to people before anything is reserved."""

    @property
    def slots(self) -> int:
        """How many pages it works on at the same time; more than that only wait inside it."""

    async def start(self) -> None:
        """Gets ready and reads a probe image. Raises EngineError when the probe's text is not read."""

    async def probe(self) -> None:
        """Asks whether it still answers; cheap, also under load. Raises EngineError saying why it does not."""

    async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
        """Reads one page. Raises TaskUnavailable for a task it does not offer, EngineError when it fails."""

    async def close(self) -> None:
        """Frees what it holds; calls under way fail with a retryable EngineError. Closing twice is harmless."""
