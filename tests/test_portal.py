"""The whole portal as its operator runs it: command line, kill -9 in mid-document, no key in the logs."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import httpx
import psutil
import pytest
from PIL import Image
from sqlalchemy import select

from models import Page
from portal.db import Database
from portal.ui.samples import named
from tests.ledger import charged
from tests.running_portal import ROOT, RunningPortal, start_portal, stop_portal


def _key(portal: RunningPortal, tenant: str, scopes: str = "ocr,read") -> dict[str, str]:
    portal.command(
        "admin", "create-tenant", "--name", tenant, "--email", f"o@{tenant}.example", "--password", "pass-word-1"
    )
    key = portal.command("admin", "create-key", "--tenant", tenant, "--scopes", scopes)
    assert key.count("\n") == 1, "the key stands alone on standard output"
    return {"Authorization": f"Bearer {key.strip()}"}


def _document(folder: Path, pages: int) -> bytes:
    named("receipt").draw(folder / "sample.png")
    frame = Image.open(folder / "sample.png").convert("RGB")
    stream = io.BytesIO()
    frame.save(stream, "TIFF", save_all=True, append_images=[frame] * (pages - 1), compression="tiff_deflate")
    return stream.getvalue()


def test_finished_pages_survive_when_the_portal_is_killed_in_mid_document(tmp_path: Path) -> None:
    portal = start_portal(tmp_path / "data", PORTAL_EMBEDDED_WORKERS="1")
    headers = _key(portal, "acme")
    job = httpx.post(
        f"{portal.url}/v1/jobs", headers=headers, files={"files": ("scan.tiff", _document(tmp_path, 8))}, timeout=60
    ).json()
    _wait_for_pages(portal, headers, job["id"], done=1)
    children = psutil.Process(portal.process.pid).children(recursive=True)
    portal.kill()
    psutil.wait_procs(children, timeout=5)
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]

    database = Database(f"sqlite:///{portal.data_dir / 'portal.db'}")
    before = _finished(database)
    assert 1 <= len(before) < 8

    portal = start_portal(tmp_path / "data", PORTAL_EMBEDDED_WORKERS="1")
    after = httpx.get(f"{portal.url}/v1/jobs/{job['id']}?wait=60", headers=headers, timeout=90).json()
    assert after["state"] == "succeeded"
    text = httpx.get(f"{portal.url}/v1/jobs/{job['id']}/result?format=txt", headers=headers).text
    assert text.count("\f") == 7
    after_restart = _finished(database)
    assert {page: after_restart[page] for page in before} == before, "finished pages are not read again"
    with database.reading() as session:
        assert charged(session) == 8
    database.dispose()
    stop_portal(portal)


def _finished(database: Database) -> dict[str, datetime]:
    with database.reading() as session:
        rows = session.execute(select(Page.id, Page.finished_at).where(Page.state == "succeeded"))
        return {row.id: row.finished_at for row in rows}


def _wait_for_pages(portal: RunningPortal, headers: dict[str, str], job_id: str, *, done: int) -> None:
    for _ in range(600):
        job = httpx.get(f"{portal.url}/v1/jobs/{job_id}", headers=headers).json()
        if job["pages_done"] >= done:
            return
        time.sleep(0.1)
    pytest.fail(f"no page was read: {job}")


def test_no_key_or_password_is_logged(portal: RunningPortal) -> None:
    headers = _key(portal, "logged")
    secret = headers["Authorization"].removeprefix("Bearer ")
    httpx.get(f"{portal.url}/v1/me", headers=headers)
    httpx.get(f"{portal.url}/v1/me", headers={"Authorization": f"Bearer {secret}x"})
    httpx.post(f"{portal.url}/v1/jobs", headers=headers, content=secret)
    httpx.get(f"{portal.url}/v1/jobs/{secret}", headers=headers)
    log = portal.log_file.read_text()
    assert secret.rsplit("_", 1)[1] not in log
    assert portal.admin_password not in log
    assert "pass-word-1" not in log


def _run(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "app.py"), *arguments],
        env={"PATH": "/usr/bin:/bin", **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_settings_are_printed_with_secrets_masked_when_checked(tmp_path: Path) -> None:
    done = _run({"PORTAL_DATA_DIR": str(tmp_path), "PORTAL_SECRET": "s" * 40}, "check")
    assert done.returncode == 0, done.stderr
    assert "PORTAL_SECRET=********" in done.stdout
    assert "s" * 40 not in done.stdout
    assert "run python app.py migrate" in done.stdout


def test_fleet_that_does_not_answer_is_told_when_settings_are_checked(tmp_path: Path) -> None:
    socket = tmp_path / "control.sock"
    done = _run({"PORTAL_DATA_DIR": str(tmp_path / "data"), "PORTAL_FLEET_URL": str(socket)}, "check")
    assert done.returncode == 0, done.stderr
    assert f"fleet at {socket}\n  The fleet does not answer" in done.stdout


def test_start_is_refused_in_words_when_a_setting_is_unknown(tmp_path: Path) -> None:
    done = _run({"PORTAL_DATA_DIR": str(tmp_path), "PORTAL_PROT": "1"}, "serve")
    assert done.returncode == 2
    assert "PORTAL_PROT" in done.stderr
    assert "Traceback" not in done.stderr


def test_start_is_refused_in_words_when_the_database_is_away(tmp_path: Path) -> None:
    away = {"PORTAL_DATA_DIR": str(tmp_path), "PORTAL_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    for command in ("serve", "migrate", "check"):
        done = _run(away, command)
        assert done.returncode == 2, command
        assert "database" in done.stderr
        assert "Traceback" not in done.stderr


def test_second_migration_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        done = _run({"PORTAL_DATA_DIR": str(tmp_path)}, "migrate")
        assert done.returncode == 0, done.stderr
