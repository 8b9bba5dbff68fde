"""A job's result on its way out: streamed as it is read, under a safe name, nothing that a browser would run."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from starlette.responses import StreamingResponse

from portal.results.export import Export

NOTHING_RUNS = "default-src 'none'; frame-ancestors 'none'; sandbox"


def result_download(export: Export, headers: Mapping[str, str]) -> StreamingResponse:
    """The file as a download. Its pieces are made in threads, as fast as the client takes them."""
    own = download_headers(export.file_name)
    return StreamingResponse(export.chunks, media_type=export.media_type, headers={**own, **headers})


def download_headers(file_name: str) -> dict[str, str]:
    """What every saved file goes out with: its name, and that nothing of it runs or is kept."""
    return {
        "Content-Disposition": attachment(file_name),
        "Content-Security-Policy": NOTHING_RUNS,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }


def attachment(file_name: str) -> str:
    """A Content-Disposition that saves under `file_name` (RFC 6266): an ASCII form, and the real one encoded."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in file_name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file_name, safe='')}"
