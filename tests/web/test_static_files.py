"""Our own files: kept by browsers under their version, asked for again without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from portal.web.static_files import VersionedFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "viewer").mkdir()
    (tmp_path / "viewer" / "dom.js").write_text("export {};")
    return tmp_path


def client(files: VersionedFiles) -> TestClient:
    app = FastAPI()
    app.mount("/static", files)
    return TestClient(app)


def test_file_is_kept_for_a_year_only_under_its_version(folder: Path) -> None:
    files = VersionedFiles(folder)
    kept = client(files).get(f"/static/{files.version}/viewer/dom.js")
    assert (kept.status_code, kept.text) == (200, "export {};")
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    asked = client(files).get("/static/viewer/dom.js")
    assert (asked.status_code, asked.headers["cache-control"]) == (200, "no-cache")
    again = client(files).get("/static/viewer/dom.js", headers={"If-None-Match": asked.headers["etag"]})
    assert again.status_code == 304


def test_version_changes_with_any_file(folder: Path) -> None:
    before = VersionedFiles(folder).version
    assert VersionedFiles(folder).version == before
    (folder / "viewer" / "dom.js").write_text("export const a = 1;")
    assert VersionedFiles(folder).version != before


@pytest.mark.parametrize(
    "path", ["{version}/../secret", "{version}/%2e%2e/secret", "0123456789abcdef/viewer/dom.js", "{version}"]
)
def test_nothing_else_is_found(folder: Path, path: str) -> None:
    (folder.parent / "secret").write_text("no")
    files = VersionedFiles(folder)
    assert client(files).get(f"/static/{path.format(version=files.version)}").status_code == 404
