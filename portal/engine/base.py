"""The one contract that every engine keeps: a page image and a task prompt in, a PageText out."""

from __future__ import annotations

from typing import Protocol

from portal.domain import EngineCapability, PageImage, PageText, TaskPrompt


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

    async def recognise(self, image: PageImage, prompt: TaskPrompt) -> PageText:
        """Reads one page. Raises TaskUnavailable for a task it does not offer, EngineError when it fails."""

    async def close(self) -> None:
        """Frees what it holds; calls under way fail with a retryable EngineError. Closing twice is harmless."""
