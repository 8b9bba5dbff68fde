"""The portal's own style sheets and scripts, kept by browsers for as long as they do not change.

Each file has two addresses: /static/ui.css, which the browser asks for again each time, and /static/VERSION/ui.css,
which it keeps for a year. The version is a hash of the whole folder, and scripts that import others by a relative
address stay within it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_YEAR = "public, max-age=31536000, immutable"


class VersionedFiles(StaticFiles):
    """Serves `folder`; `version` is what to put into the addresses of pages."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)
        self.version = _hash(folder)

    def get_path(self, scope: Scope) -> str:
        """The file's path within the folder, without the version."""
        return super().get_path(scope).removeprefix(self.version + os.sep)

    def file_response(self, full_path: Any, stat_result: Any, scope: Scope, status_code: int = 200) -> Response:
        """The file, or 304 where the browser has it."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        is_versioned = super().get_path(scope).startswith(self.version + os.sep)
        response.headers["Cache-Control"] = _YEAR if is_versioned else "no-cache"
        return response


def _hash(folder: Path) -> str:
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return content.hexdigest()[:16]
