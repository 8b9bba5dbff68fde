"""A page's image as an engine is sent it: brought to the profile's size and written into a data: URL."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass

from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from portal.domain import PageImage
from portal.engine.profiles.base import ImageRule

_JPEG_QUALITY = 92
_EVEN = 8  # of 255: shades that differ less are paper and noise


@dataclass(frozen=True, slots=True)
class SentImage:
    """The data: URL, and whether there is anything on the page but paper."""

    url: str
    has_ink: bool


def sent_image(page: PageImage, rule: ImageRule) -> SentImage:
    """Reads the page's PNG, which the sandbox has made, and writes it as the profile wants it. Blocks; for a thread.

    Raises OSError when the file is gone.
    """
    # Not by Image.open, whose limit of pixels is for bytes from strangers.
    with PngImageFile(page.path) as opened:
        image = opened.convert("RGB")
    size = sent_size(image.width, image.height, rule)
    if size != image.size:
        image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    stream = io.BytesIO()
    if rule.form == "png":
        image.save(stream, "PNG", compress_level=1)
    else:
        image.save(stream, "JPEG", quality=_JPEG_QUALITY)
    return SentImage(
        f"data:image/{rule.form};base64,{base64.b64encode(stream.getvalue()).decode('ascii')}", _has_ink(image)
    )


def sent_size(width_px: int, height_px: int, rule: ImageRule) -> tuple[int, int]:
    """Width and height to send: within the rule's longest side and pixels, of the same shape, at least one pixel."""
    scale = min(rule.longest_side_px / max(width_px, height_px), math.sqrt(rule.max_pixels / (width_px * height_px)))
    if scale >= 1 and not rule.enlarges:
        return width_px, height_px
    return max(1, math.floor(width_px * scale)), max(1, math.floor(height_px * scale))


def _has_ink(image: Image.Image) -> bool:
    grey = image.convert("L").reduce(max(1, min(image.size) // 400))
    lowest, highest = grey.getextrema()
    return float(highest) - float(lowest) > _EVEN  # type: ignore[arg-type]  # one band, so numbers
