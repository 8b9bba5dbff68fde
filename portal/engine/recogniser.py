"""Reads cut-out lines with the PP-OCRv6 recogniser: prepares a line, runs the network, has the answer decoded.

What rapidocr does for a line, with its numbers, but it keeps the probabilities, which rapidocr drops. Used by the
page reader, in a child process only. One line a run: lines of unlike length in a batch would be padded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime

from portal.engine.decoding import Alphabet, Reading, decoded

Image = npt.NDArray[np.uint8]

_HEIGHT_PX, _LEAST_WIDTH_PX = 48, 320
_MOST_INTRUSION = 0.2


class LineRecogniser:
    """One session of the recogniser and the characters that the weights name; never shared between threads."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self._input = session.get_inputs()[0].name
        named = session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._alphabet = Alphabet(["", *named, " "])

    def read(self, lines: Iterable[Image]) -> list[Reading]:
        """Text and score (0 to 1) of each line, a BGR image of any size. Raises onnxruntime's own errors."""
        return [self._read(line) for line in lines]

    def _read(self, line: Image) -> Reading:
        reading = self._spelled(line)
        if not reading.has_doubtful_accent:
            return reading
        cleaned = without_neighbours(line)
        return reading if cleaned is line else max(reading, self._spelled(cleaned), key=lambda one: one.score)

    def _spelled(self, line: Image) -> Reading:
        (probabilities,) = self._session.run(None, {self._input: _prepared(line)})
        return decoded(probabilities[0], self._alphabet)


def without_neighbours(line: Image) -> Image:
    """The line without what reaches into its image from the lines above and below.

    A descender of the line above ends at the upper edge and looks like an accent: MUTE became MUTÉ. Erased is what
    touches the upper or lower edge and is at most a fifth of the height. The same image when there is nothing to
    erase. Only for lines with a doubtful accent: remnants that are left over confuse other lines more than they help.
    """
    grey = cv2.cvtColor(line, cv2.COLOR_BGR2GRAY)
    _, ink = cv2.threshold(grey, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    if cv2.countNonZero(ink) > ink.size / 2:
        ink = cv2.bitwise_not(ink)
    if not (ink[0].any() or ink[-1].any()):
        return line
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    top, height = boxes[:, cv2.CC_STAT_TOP], boxes[:, cv2.CC_STAT_HEIGHT]
    is_intruder = ((top == 0) | (top + height == len(line))) & (height <= max(1.0, _MOST_INTRUSION * len(line)))
    is_intruder[0] = False
    if not is_intruder.any():
        return line
    intruders = is_intruder[labels]
    halo = cv2.dilate(intruders.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    erased = intruders | (halo & (ink == 0))
    paper = line[(ink == 0) & ~erased]
    if not len(paper):
        return line
    cleaned = line.copy()
    cleaned[erased] = np.median(paper, axis=0)
    return cleaned


def _prepared(line: Image) -> npt.NDArray[np.float32]:
    """The network's input: 48 pixels high, at least 320 wide, from -1 to 1, padded on the right with 0."""
    ratio = line.shape[1] / line.shape[0]
    width = int(_HEIGHT_PX * max(_LEAST_WIDTH_PX / _HEIGHT_PX, ratio))
    filled = min(width, math.ceil(_HEIGHT_PX * ratio))
    scaled = cv2.resize(line, (filled, _HEIGHT_PX)).astype(np.float32).transpose(2, 0, 1)
    prepared = np.zeros((1, 3, _HEIGHT_PX, width), np.float32)
    prepared[0, :, :, :filled] = (scaled / 255 - 0.5) / 0.5
    return cast("npt.NDArray[np.float32]", prepared)
