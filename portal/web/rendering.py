"""The portal's own pages as HTML: one Jinja environment that escapes everything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(
    template: str, context: Mapping[str, Any], *, status: int = 200, retry_after_seconds: int | None = None
) -> HTMLResponse:
    """The page of `templates/<template>`, never stored by a cache."""
    headers = {"Cache-Control": "no-store"}
    if retry_after_seconds is not None:
        headers["Retry-After"] = str(retry_after_seconds)
    content = _ENVIRONMENT.get_template(template).render(context)
    return HTMLResponse(content, status_code=status, headers=headers)
