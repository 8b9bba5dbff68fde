"""Draws the small pictures of the samples into a folder: `python -m portal.ui.samples static/samples`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

from portal.ui.samples import SAMPLES

THUMBNAIL_PX = (200, 280)


def main(folder: Path) -> None:
    """Writes one WebP of 200 x 280 pixels for each sample."""
    with tempfile.TemporaryDirectory() as scratch:
        for sample in SAMPLES:
            page = Path(scratch, sample.file_name)
            sample.draw(page)
            with Image.open(page) as image:
                small = image.resize(THUMBNAIL_PX, Image.Resampling.LANCZOS)
            small.save(folder / f"{sample.name}.webp", quality=72, method=6)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
