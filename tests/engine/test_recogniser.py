"""Reading cut-out lines: the ink of neighbouring lines, and when a line is read a second time."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image as Picture
from PIL import ImageDraw, ImageFont

from portal.engine.recogniser import Image, LineRecogniser, without_neighbours


def _drawn(text: str, *, paper: int = 255, ink: int = 0, top: int = 10) -> Image:
    picture = Picture.new("L", (420, 52), paper)
    ImageDraw.Draw(picture).text((8, top), text, fill=ink, font=ImageFont.load_default(size=28))
    return np.asarray(picture.convert("RGB"))


def _intruded(line: Image, ink: int = 0) -> Image:
    line = line.copy()
    line[:6, 60:70] = ink
    line[-5:, 200:230] = ink
    return line


@pytest.mark.parametrize(("paper", "ink"), [(255, 0), (20, 230)])
def test_neighbours_ink_is_erased_when_it_touches_an_edge(paper: int, ink: int) -> None:
    line = _drawn("MUTE it, or SOLO", paper=paper, ink=ink)
    assert np.array_equal(without_neighbours(_intruded(line, ink)), line)


def test_line_stays_as_it_is_when_nothing_reaches_in() -> None:
    line = _drawn("MÜTÉ it, or SÖLÖ")
    assert without_neighbours(line) is line


def test_letters_stay_when_they_touch_the_edge_themselves() -> None:
    line = _drawn("MUTE", top=-6)
    assert np.array_equal(without_neighbours(line), line)


def test_line_stays_when_it_is_all_ink_or_all_paper() -> None:
    for value in (0, 255):
        line = np.full((20, 60, 3), value, np.uint8)
        assert np.array_equal(without_neighbours(line), line)


class _Session:
    """A recogniser that sees an accent wherever there is ink at the upper edge, and counts its runs."""

    name = "x"

    def __init__(self) -> None:
        self.runs = 0
        self.custom_metadata_map = {"character": "E\nÉ"}

    def get_inputs(self) -> list[_Session]:
        return [self]

    def get_modelmeta(self) -> _Session:
        return self

    def run(self, _: object, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.runs += 1
        has_ink_above = bool((inputs["x"][0, 0, 0] < 0).any())
        chances = [0.05, 0.2, 0.7, 0.05] if has_ink_above else [0.02, 0.97, 0.01, 0.0]
        return [np.array([[chances]], np.float32)]


def test_doubtful_accent_is_read_again_without_the_neighbours_ink() -> None:
    session = _Session()
    recogniser = LineRecogniser(session)
    line = _drawn("E")
    assert [reading.text for reading in recogniser.read([line, _intruded(line)])] == ["E", "E"]
    assert session.runs == 3
