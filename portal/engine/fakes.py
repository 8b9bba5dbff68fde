"""An engine that answers by script, for tests of everything that stands in front of an engine.

It can answer fixed text, fail, crash with a bug, answer after a deadline, or answer garbage. No test doubles
of single methods elsewhere: this keeps the whole Engine protocol.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from portal.domain import EngineCapability, PageImage, Task, TaskPrompt
from portal.engine.base import PLAIN_CALL, Call
from portal.engine.fields.matcher import from_page
from portal.engine.markdown import to_markdown
from portal.errors import EngineError, TaskUnavailable
from portal.page_text import Block, Line, PageText

GARBAGE = "\x00\ud800 <img src=x onerror=alert(1)>\u202e\x1b[2J" + "a" * 5000


@dataclass(frozen=True, slots=True)
class Step:
    """What one call does: wait `seconds`, then raise `error` or answer `text` (blank when empty)."""

    text: str = ""
    seconds: float = 0.0
    error: Exception | None = None


def answers(text: str, *, seconds: float = 0.0) -> Step:
    """Reads `text`, one line of the page for each line of it."""
    return Step(text=text, seconds=seconds)


def blank() -> Step:
    """Finds nothing on the page."""
    return Step()


def fails(*, is_permanent: bool = False, message: str = "The reader stopped in mid-page.") -> Step:
    """Fails as engines do, with an EngineError."""
    return Step(error=EngineError(message, is_permanent=is_permanent))


def crashes() -> Step:
    """Raises what no caller expects: a bug of the engine."""
    return Step(error=RuntimeError("a bug in the engine"))


def hangs(seconds: float = 3600.0) -> Step:
    """Answers in the end, long after any deadline."""
    return Step(text="too late", seconds=seconds)


def garbage() -> Step:
    """Answers what no page says: NUL, a lone surrogate, markup, control characters, an endless word."""
    return Step(text=GARBAGE)


class FakeEngine:
    """Plays `script` for each page: its nth call takes the nth step, and the last step repeats.

    `scripts` overrides it for single pages, by the image's path. Its lines score 0.9; `check_below` is what it says of
    that. `calls` counts calls by path, `most_at_once` the calls that ran at the same time, `calls_now` those under
    way, `order` the paths in the order they began. While `is_held` is set, calls wait before their step.
    """

    def __init__(
        self,
        *script: Step,
        scripts: dict[Path, Sequence[Step]] | None = None,
        slots: int = 1,
        capability: EngineCapability | None = None,
    ) -> None:
        self.capability = capability or fake_capability()
        self.slots = slots
        self.scripts: dict[Path, Sequence[Step]] = scripts or {}
        self.script: Sequence[Step] = script or (answers("Total 9.00"),)
        self.calls: Counter[Path] = Counter()
        self.order: list[Path] = []
        self.most_at_once = 0
        self.check_below: float | None = None
        self.is_held = False
        self.is_started = False
        self.is_closed = False
        self.trouble: str | None = None
        self.calls_now = 0

    async def start(self) -> None:
        """Notes that it was started."""
        self.is_started = True

    async def probe(self) -> None:
        """Raises what `trouble` says, when it does."""
        if self.trouble is not None:
            raise EngineError(self.trouble, is_permanent=False)

    async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
        """Plays the next step of the page. Raises what the step says, or TaskUnavailable by the capability."""
        if prompt.task not in self.capability.tasks:
            raise TaskUnavailable(self.capability.unavailable.get(prompt.task, "Not offered."))
        step = self._next_step(unclaimed(image.path))
        self.calls_now += 1
        self.most_at_once = max(self.most_at_once, self.calls_now)
        try:
            await self._wait(step.seconds)
        finally:
            self.calls_now -= 1
        if step.error is not None:
            raise step.error
        page = written(step.text, width_px=image.width_px, height_px=image.height_px)
        if prompt.task is Task.FIELDS:
            page = replace(page, fields=from_page(page, prompt.fields))
        return replace(page, check_below=self.check_below)

    async def close(self) -> None:
        """Lets go of held calls, which then fail as those of a closed engine do."""
        self.is_closed = True

    def _next_step(self, path: Path) -> Step:
        script = self.scripts.get(path, self.script)
        step = script[min(self.calls[path], len(script) - 1)]
        self.calls[path] += 1
        self.order.append(path)
        return step

    async def _wait(self, seconds: float) -> None:
        while self.is_held and not self.is_closed:  # noqa: ASYNC110  set by tests from other threads
            await asyncio.sleep(0.005)
        if self.is_closed:
            raise EngineError("The engine was closed.", is_permanent=False)
        await asyncio.sleep(seconds)


def unclaimed(path: Path) -> Path:
    """`0002.1f3a.png`, the scratch image of one claim, as `0002.png`, which names the page."""
    return path.with_name(path.name.partition(".")[0] + path.suffix)


def fake_capability(name: str = "fake") -> EngineCapability:
    """Extract only; a FakeEngine with a capability that has the task fields matches them in its text."""
    return EngineCapability(
        name=name,
        checkpoint="fake-checkpoint",
        profile_version="1",
        tasks=frozenset({Task.EXTRACT}),
        languages=("en",),
        unavailable={Task.FIELDS: "The fake reads text only.", Task.TRANSLATE: "The fake reads text only."},
    )


def written(text: str, *, width_px: int = 600, height_px: int = 800) -> PageText:
    """The PageText of a page on which `text` stands, rows from top to bottom; a blank one for no text."""
    rows = text.splitlines() if text.strip() else []
    lines = tuple(Line(row, (20, 20 + 30 * i, 20 + 10 * len(row), 44 + 30 * i), 0.9) for i, row in enumerate(rows))
    blocks = (Block("text", tuple(((i,),) for i in range(len(rows)))),) if rows else ()
    return PageText(
        width_px=width_px,
        height_px=height_px,
        lines=lines,
        blocks=blocks,
        markdown=to_markdown(lines, blocks),
        confidence=0.9 if rows else None,
    )
