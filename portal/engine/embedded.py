"""The embedded engine: OCR on the CPU in warm child processes, offline, with no model server.

A page that is alone is read with two threads, pages that fill the machine with one each: measured, that is the
shortest wait for one and the most pages a second for many. Each child holds sessions for both.
"""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock

from PIL import Image, ImageDraw, ImageFont

from portal.children import ChildFailure, ChildLimits, ChildPool
from portal.domain import EngineCapability, FieldSpec, FieldType, PageImage, Task, TaskPrompt
from portal.engine.base import PLAIN_CALL, Call
from portal.engine.capacity import free_memory_bytes, usable_cores
from portal.errors import EngineError, TaskUnavailable
from portal.page_text import PageText

WORKER_BYTES = 1536 * 2**20
# A worker's address space is larger than its memory by what libraries map and never touch, some 0.4 GB.
ADDRESS_SPACE_BYTES = WORKER_BYTES + 256 * 2**20
ALONE_THREADS = 2
# Of the 782 lines of the shared scans this marks 73 (9 %), and half of those differ from the known text; of all lines
# under a third do. 0.97 marks 46 and is no surer, 0.99 marks 211: a mark on every fourth line tells nobody anything.
CHECK_BELOW = 0.98
PROBE_TEXT = "Invoice 4711 Total 9.00"
_PROBE_PROMPT = TaskPrompt(Task.FIELDS, (FieldSpec("total", FieldType.MONEY),))

CAPABILITY = EngineCapability(
    name="embedded",
    checkpoint="PP-OCRv6-small",
    profile_version="4",
    tasks=frozenset({Task.EXTRACT, Task.FIELDS}),
    languages=("da", "de", "en", "es", "fr", "it", "ja", "nl", "pt", "sv", "zh"),
    purpose="Text with a box and a score for each line, on this machine's processor.",
    licence="Apache-2.0",
    unavailable={
        Task.TRANSLATE: "The embedded engine reads text but cannot translate: that needs a language model on vLLM.",
    },
)

_ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
}


def default_workers() -> int:
    """One worker a core, as far as free memory reaches (1.5 GB each), at least one."""
    return max(1, min(usable_cores(), free_memory_bytes() // WORKER_BYTES))


class EmbeddedEngine:
    """Reads up to `workers` pages at once, each within `page_seconds`. Safe to call from any event loop."""

    def __init__(self, workers: int, page_seconds: int) -> None:
        self.slots = workers
        self.capability = CAPABILITY
        self._page_seconds = page_seconds
        self._cores = usable_cores()
        self._pages_now = 0
        self._lock = Lock()
        limits = ChildLimits(
            memory_bytes=ADDRESS_SPACE_BYTES, cpu_seconds=ALONE_THREADS * page_seconds, calls=200, environ=_ONE_THREAD
        )
        self._children = ChildPool(workers, limits)
        # Threads of its own: pages must not take the ones that the rest of the portal waits on.
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="page")

    async def start(self) -> None:
        """Warms every worker with a page of known text. Raises EngineError when it is not read."""
        with tempfile.TemporaryDirectory(prefix="portal-probe-") as folder:
            image = probe_image(Path(folder) / "probe.png")
            pages = await asyncio.gather(*(self.recognise(image, _PROBE_PROMPT) for _ in range(self.slots)))
        if any(page.text != PROBE_TEXT for page in pages):
            raise EngineError(
                "The embedded engine does not read its own test page.",
                is_permanent=True,
                remedy="Reinstall the portal's packages; rapidocr and onnxruntime must have the locked versions.",
            )

    async def probe(self) -> None:
        """Nothing to ask: a child that dies is replaced by a fresh one."""

    async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
        """Reads one page in a child, and finds its fields there. Raises TaskUnavailable, EngineError on failure."""
        if prompt.task not in self.capability.tasks:
            raise TaskUnavailable(self.capability.unavailable[prompt.task])
        try:
            reading = asyncio.get_running_loop().run_in_executor(self._threads, self._read, image, prompt)
        except RuntimeError as error:  # the executor was shut down
            raise _engine_error(ChildFailure("closed"), self._page_seconds) from error
        return await reading

    async def close(self) -> None:
        """Kills the children; pages under way fail with a retryable EngineError."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._children.close()
        self._threads.shutdown(wait=True)

    def _read(self, image: PageImage, prompt: TaskPrompt) -> PageText:
        # The child's module loads OpenCV and onnxruntime, so the portal only ever names it.
        with self._lock:
            self._pages_now += 1
            threads = ALONE_THREADS if self._pages_now * ALONE_THREADS <= self._cores else 1
        try:
            return self._children.run(_read_page, str(image.path), threads, prompt, wall_seconds=self._page_seconds)
        except ChildFailure as failure:
            raise _engine_error(failure, self._page_seconds) from failure
        finally:
            with self._lock:
                self._pages_now -= 1


def probe_image(path: Path) -> PageImage:
    """Writes the test page, drawn by Pillow with its own font, as a PNG."""
    image = Image.new("RGB", (640, 200), "white")
    ImageDraw.Draw(image).text((40, 70), PROBE_TEXT, fill="black", font=ImageFont.load_default(size=40))
    image.save(path)
    return PageImage(path, *image.size)


def _read_page(path: str, threads: int, prompt: TaskPrompt) -> PageText:
    from portal.engine.page_reader import read_page

    page = replace(read_page(path, threads), check_below=CHECK_BELOW)
    if prompt.task is not Task.FIELDS:
        return page
    from portal.engine.fields.matcher import from_page

    return replace(page, fields=from_page(page, prompt.fields))


def _engine_error(failure: ChildFailure, page_seconds: int) -> EngineError:
    """A page over its time is not tried again by itself: it would hold a worker as long once more, in vain.

    A dead, closed or memory-short child is replaced by a fresh one, so the same page may well succeed.
    """
    match failure.reason:
        case "timeout":
            return EngineError(
                f"The page took longer than one page may take ({page_seconds} s).",
                is_permanent=True,
                code="page_timeout",
                remedy="Try again when the portal is less busy, or send the page at a lower resolution.",
            )
        case "memory":
            return EngineError("Reading the page took more memory than a worker has.", is_permanent=False)
        case "closed":
            return EngineError("The portal was stopping; the page was not read.", is_permanent=False)
        case _:
            return EngineError("The worker that read the page died.", is_permanent=False)
