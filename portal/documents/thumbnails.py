"""Small pictures of pages for lists, made from the JPEG that people are shown."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from portal.documents.storage import storage_errors

THUMBNAIL_WIDTH_PX = 168
THUMBNAIL_HEIGHT_PX = 240
_QUALITY = 75


def thumbnail(view: Path) -> bytes:
    """The page view `view` as a JPEG of at most 168 x 240 pixels. Raises Unavailable.

    The view is our own JPEG, so it is opened here; it is decoded at an eighth of its size where that suffices.
    """
    from PIL import JpegImagePlugin

    size = (THUMBNAIL_WIDTH_PX, THUMBNAIL_HEIGHT_PX)
    written = BytesIO()
    # Not Image.open: our own JPEG may be larger than what Pillow takes for a bomb.
    with storage_errors(), JpegImagePlugin.JpegImageFile(str(view)) as page:
        page.draft("RGB", size)
        page.thumbnail(size)
        page.save(written, "JPEG", quality=_QUALITY)
    return written.getvalue()
