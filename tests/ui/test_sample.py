from __future__ import annotations

from pathlib import Path

from PIL import Image

from portal.ui import sample


def test_the_sample_is_a_page_of_readable_size_when_drawn(tmp_path: Path) -> None:
    target = tmp_path / "sample.png"
    sample.draw(target)
    with Image.open(target) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (sample.WIDTH_PX, sample.HEIGHT_PX))
        ink = image.convert("L").point(lambda value: 255 * (value < 128)).getbbox()
    assert ink is not None
    assert ink[0] > 40
    assert ink[2] < sample.WIDTH_PX - 40
    assert ink[3] < sample.HEIGHT_PX - 40
    assert target.stat().st_size < 200_000
