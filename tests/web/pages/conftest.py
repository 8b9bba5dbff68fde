"""A small application of the portal's own pages over a real database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from portal import settings
from portal.accounts.peppers import Peppers
from portal.db import Database
from portal.errors import NotFound, Unavailable
from portal.jobs.context import JobContext
from portal.services import Services
from portal.web import pages, router
from portal.web.headers import SecurityHeaders
from tests.web.pages import ADDRESS

NewClient = Callable[..., TestClient]


@pytest.fixture
def new_client(sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewClient:
    """Makes browsers; settings may be given as PORTAL_* variables without the prefix."""

    def make(base_url: str = "http://portal.test", address: str = ADDRESS, **variables: str) -> TestClient:
        for name, value in (variables | {"DATA_DIR": str(tmp_path)}).items():
            monkeypatch.setenv(f"PORTAL_{name}", value)
        configured = settings.load()
        # No page of this router touches jobs.
        services = Services(configured, sqlite_database, Peppers.load(configured), cast(JobContext, None))
        return TestClient(
            SecurityHeaders(_app(services)),
            base_url=base_url,
            client=(address, 50000),
            raise_server_exceptions=False,
            headers={"Accept": "text/html"},
        )

    return make


@pytest.fixture
def client(new_client: NewClient) -> TestClient:
    """One browser."""
    return new_client()


def _app(services: Services) -> FastAPI:
    app = FastAPI()
    pages.install(app)
    app.include_router(router(services))

    @app.get("/broken")
    def break_down() -> None:
        raise RuntimeError("a secret detail")

    @app.get("/away")
    def be_away() -> None:
        raise Unavailable("The database does not answer.") from OSError("a secret detail")

    @app.get("/gone")
    def be_gone() -> None:
        raise NotFound("There is no such job.")

    return app
