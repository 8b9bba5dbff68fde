"""Reads one page image with PP-OCRv6 on the CPU. Runs in a child process only: it loads OpenCV and onnxruntime.

Detect once, find the page's orientation by trying a few lines both ways, recognise every line once. The network
weights are those inside the rapidocr wheel, named by path, so that nothing is ever downloaded. Settings from
measurements on scans in 11 languages: no line classifier (it flips good lines), one line a batch.
"""

from __future__ import annotations

import ctypes
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime
import rapidocr
from omegaconf import flag_override
from onnxruntime.capi import onnxruntime_pybind11_state
from rapidocr.inference_engine.onnxruntime import ONNXRuntimeError

from portal.engine.decoding import Reading
from portal.engine.geometry import bounding_box
from portal.engine.layout import page_text
from portal.engine.recogniser import Image, LineRecogniser
from portal.errors import EngineError
from portal.page_text import Box, Line, PageText, Quad

Quads = npt.NDArray[np.float32]

_WEIGHTS = Path(rapidocr.__file__).parent / "models"
_LONGEST_SIDE_PX = 2000
_SHORTEST_SIDE_PX = 736
_MOST_PIXELS = 2_500_000
_LARGEST_SCALE = 3.0
_VOTERS = 4
_SURE_SCORE = 0.9
_OBLONG = 1.5
_MOST_WORKING_PIXELS = 12_000_000
_INK_DIFFERENCE = 48
_WINDOW_SHARE = 0.5
_WINDOW_MARGIN_PX = 40
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h of glibc
_MMAP_THRESHOLD_BYTES = 16 * 2**20

_REFUSED = (ONNXRuntimeError, onnxruntime_pybind11_state.Fail, onnxruntime_pybind11_state.RuntimeException)

_libc = ctypes.CDLL(None) if os.name == "posix" else None


def read_page(path: str, threads: int) -> PageText:
    """The text of the page image at `path`. Raises EngineError for a broken file, MemoryError when memory is short."""
    image = _load(path)
    try:
        return _reader(threads).read(image)
    except _REFUSED as error:
        # Sizes are bounded, so a run that the runtime refuses is one it could not allocate for.
        raise MemoryError from error
    except cv2.error as error:
        if error.code == cv2.Error.StsNoMem:
            raise MemoryError from error
        raise
    finally:
        _return_freed_memory()


def detection_scale(width_px: int, height_px: int) -> float:
    """Scale at which text is looked for.

    Long side at most 2000; short side at least 736, but not over thrice its size. At most 2.5 million pixels, which
    bounds memory and costs no accuracy on A4 at 300 dpi.
    """
    scale = min(1.0, _LONGEST_SIDE_PX / max(width_px, height_px))
    scale = max(scale, min(_LARGEST_SCALE, _SHORTEST_SIDE_PX / min(width_px, height_px)))
    return min(scale, math.sqrt(_MOST_PIXELS / (width_px * height_px)))


def _load(path: str) -> Image:
    try:
        image = cv2.imdecode(np.fromfile(path, dtype=np.uint8), cv2.IMREAD_COLOR)
    except (OSError, cv2.error):
        image = None
    if image is None:
        raise EngineError("The page's image is gone or broken.", is_permanent=True)
    return cast(Image, image)


def _working_copy(page: Image) -> Image:
    """The page itself, or a smaller copy where it is so large that its pixels alone would strain a worker."""
    height, width = page.shape[:2]
    scale = math.sqrt(_MOST_WORKING_PIXELS / (width * height))
    if scale >= 1:
        return page
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return cast(Image, cv2.resize(page, size, interpolation=cv2.INTER_AREA))


@lru_cache
def _reader(threads: int) -> _PageReader:
    cv2.setNumThreads(1)
    _tame_heap()
    return _PageReader(threads)


def _session(weights: str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    # Threads that spin while they wait slow everybody down on a machine that is not idle.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(_WEIGHTS / weights), options, providers=["CPUExecutionProvider"])


def _tame_heap() -> None:
    """One heap for all threads, and large arrays outside of it.

    Else glibc's heaps, one a thread and full of gaps, grow to hundreds of megabytes of address space over a few
    hundred pages, and the limit on a worker's address space ends it without need.
    """
    if _libc is not None and hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_ARENA_MAX, 1)
        _libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def _return_freed_memory() -> None:
    """Between two pages a worker then holds about 0.2 GB instead of 0.6."""
    if _libc is not None and hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


class _PageReader:
    """A detector and a recogniser with a fixed number of threads; never shared between threads."""

    def __init__(self, threads: int) -> None:
        self._ocr = rapidocr.RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.use_cls": False,
                "Global.use_preprocess_img": False,
                "Global.use_vertical_padding": False,
                "Det.limit_type": "min",
                "Det.limit_side_len": 32,
            }
        )
        # Given a session, rapidocr looks for no weights of its own, here or on the network.
        with flag_override(self._ocr.cfg, "allow_objects", True):
            self._ocr.cfg.Det.session = _session("PP-OCRv6_det_small.onnx", threads)
        self._lines = LineRecogniser(_session("PP-OCRv6_rec_small.onnx", threads))

    def read(self, page: Image) -> PageText:
        """The text of a BGR image of any orientation."""
        image = _working_copy(page)
        quads = self._find_lines(image)
        turns, readings = self._vote(image, quads)
        upright = np.ascontiguousarray(np.rot90(image, k=-turns))
        quads = _turned(quads, turns, image)
        unread = [at for at in range(len(quads)) if at not in readings]
        readings.update(zip(unread, self._lines.read(self._crops(upright, quads[unread])), strict=True))
        width, height = page.shape[1::-1] if turns % 2 == 0 else page.shape[:2]
        quads = quads * np.float32(width / upright.shape[1])
        lines = [_line(quad, readings[at], width, height) for at, quad in enumerate(quads)]
        return page_text(lines, width_px=width, height_px=height, rotation_degrees=90 * turns)

    def _find_lines(self, image: Image) -> Quads:
        """Quads of the text lines; where none is seen, a second look at the inked part alone, enlarged.

        A line on an otherwise empty sheet of poster size is a few pixels high at the scale of the first look.
        """
        quads = self._detect(image)
        window = None if len(quads) else inked_window(image)
        if window is None:
            return quads
        left, top, right, bottom = window
        inked = np.ascontiguousarray(image[top:bottom, left:right])
        return self._detect(inked) + np.array([left, top], np.float32)

    def _detect(self, image: Image) -> Quads:
        """Corners of each text line, shape (lines, 4, 2), clockwise from the top left, in pixels of `image`."""
        height, width = image.shape[:2]
        scale = detection_scale(width, height)
        size = (max(32, round(width * scale / 32) * 32), max(32, round(height * scale / 32) * 32))
        small = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
        # Flags given to a call stay for later calls, so all three are given each time.
        found: Any = self._ocr(small, use_det=True, use_cls=False, use_rec=False)
        boxes = np.zeros((0, 4, 2)) if found.boxes is None else found.boxes
        return np.asarray(boxes * np.array([width / size[0], height / size[1]]), np.float32)

    def _vote(self, image: Image, quads: Quads) -> tuple[int, dict[int, Reading]]:
        """Clockwise quarter turns that make the page upright, and what the voting lines say, by quad.

        The shapes of the lines give the axis, their scores read both ways give the direction.
        """
        widths = np.linalg.norm(quads[:, 0] - quads[:, 1], axis=1)
        heights = np.linalg.norm(quads[:, 0] - quads[:, 3], axis=1)
        is_tall, is_wide = heights > _OBLONG * widths, widths > _OBLONG * heights
        is_sideways = bool(heights[is_tall].sum() > widths[is_wide].sum())
        oblong = np.flatnonzero(is_tall if is_sideways else is_wide)
        voters = oblong[np.argsort(-np.maximum(widths, heights)[oblong])][:_VOTERS]
        if not len(voters):
            return 0, {}
        # Tall crops come turned counter-clockwise, which is the clockwise turn 3.
        crops = self._crops(image, quads[voters])
        forward = self._lines.read(crops)
        best, turns = forward, 3 if is_sideways else 0
        if _mean_score(forward) < _SURE_SCORE:
            backward = self._lines.read([np.ascontiguousarray(crop[::-1, ::-1]) for crop in crops])
            if _mean_score(backward) > _mean_score(forward):
                best, turns = backward, 1 if is_sideways else 2
        return turns, {int(at): reading for at, reading in zip(voters, best, strict=True)}

    def _crops(self, image: Image, quads: Quads) -> list[Image]:
        return cast("list[Image]", self._ocr.crop_text_regions(image, quads))


def inked_window(image: Image) -> Box | None:
    """The part of a page that differs from its background, with a margin; None where it is most of the page.

    Specks spread over the page make it most of the page, so noise gets no second look.
    """
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    inked = cv2.absdiff(grey, np.full_like(grey, int(np.median(grey)))) > _INK_DIFFERENCE
    left, top, width, height = cv2.boundingRect(inked.astype(np.uint8))
    if not width or width * height > _WINDOW_SHARE * grey.size:
        return None
    right, bottom = left + width + _WINDOW_MARGIN_PX, top + height + _WINDOW_MARGIN_PX
    return (
        max(0, left - _WINDOW_MARGIN_PX),
        max(0, top - _WINDOW_MARGIN_PX),
        min(grey.shape[1], right),
        min(grey.shape[0], bottom),
    )


def _turned(quads: Quads, turns: int, image: Image) -> Quads:
    """Quads on the page after `turns` clockwise quarter turns, their corners again from the top left."""
    height, width = image.shape[:2]
    for _ in range(turns):
        quads = np.stack([height - quads[..., 1], quads[..., 0]], axis=-1)
        height, width = width, height
    return np.roll(quads, turns, axis=1)


def _line(quad: Quads, reading: Reading, width_px: int, height_px: int) -> Line:
    corners = cast(Quad, tuple(round(float(value), 1) for value in quad.ravel()))
    box = bounding_box(corners, width_px, height_px)
    return Line(reading.text.strip(), box, round(reading.score, 4), corners)


def _mean_score(readings: list[Reading]) -> float:
    return sum(reading.score for reading in readings) / len(readings)
