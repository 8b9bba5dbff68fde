from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from portal.errors import InvalidRequest
from portal.ui import samples
from portal.ui.samples import SAMPLES, Sample
from portal.ui.samples.paper import HEIGHT_PX, WIDTH_PX
from tests.running_portal import ROOT


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_sample_is_a_page_of_readable_size_within_its_margins(sample: Sample, tmp_path: Path) -> None:
    target = tmp_path / sample.file_name
    sample.draw(target)
    with Image.open(target) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (WIDTH_PX, HEIGHT_PX))
        ink = image.convert("L").point(lambda value: 255 * (value < 128)).getbbox()
    assert ink is not None
    assert ink[0] > 40
    assert ink[2] < WIDTH_PX - 40
    assert ink[3] < HEIGHT_PX - 40
    assert target.stat().st_size < 250_000


def test_each_sample_has_its_small_picture() -> None:
    drawn = {path.stem for path in (ROOT / "static" / "samples").iterdir()}
    assert drawn == {sample.name for sample in SAMPLES}
    assert len({sample.language for sample in SAMPLES}) >= 7


def test_an_unknown_sample_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="sample"):
        samples.named("../receipt")
