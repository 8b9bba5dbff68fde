"""Buttons name an action: one that nobody knows does nothing, and a new key is shown whatever else fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select

from models import ApiKey
from portal.accounts import api_keys
from portal.accounts.peppers import Peppers
from portal.domain import JobState, Scope
from portal.errors import InvalidRequest, Unavailable
from portal.jobs.queries import get_job
from portal.services import Services
from portal.ui.keys import KeysPage
from portal.ui.workspace import WorkspacePage
from tests.jobs.conftest import Bench, sandbox, sqlite_bench

__all__ = ["sandbox", "sqlite_bench"]  # the fixtures


@pytest.fixture
def services(sqlite_bench: Bench) -> Services:
    peppers = Peppers.from_secrets(["p" * 32])
    return Services(sqlite_bench.context.settings, sqlite_bench.context.database, peppers, sqlite_bench.context)


def _request(bench: Bench, **query: str) -> Any:
    scope = {"state": {"principal": bench.alice}}
    url = SimpleNamespace(scheme="http", netloc="portal.test")
    return SimpleNamespace(request=SimpleNamespace(scope=scope, query_params=query, url=url))


def _event(**told: str) -> Any:
    return SimpleNamespace(_data=told)


def _made_key(bench: Bench, services: Services) -> str:
    with services.database.transaction() as session:
        made = api_keys.create(
            session, services.peppers, bench.alice, name="nightly", scopes=(Scope.READ,), expires_at=None
        )
    return made.view.id


def test_no_job_is_cancelled_when_the_action_is_unknown(sqlite_bench: Bench, services: Services) -> None:
    job = sqlite_bench.submit()
    with pytest.raises(InvalidRequest):
        WorkspacePage(services)._act(_event(action="undefined"), _request(sqlite_bench, job=job.id))
    assert get_job(sqlite_bench.context, sqlite_bench.alice.tenant_id, job.id).state is JobState.QUEUED


def test_no_key_is_revoked_when_the_action_is_unknown(sqlite_bench: Bench, services: Services) -> None:
    key_id = _made_key(sqlite_bench, services)
    with pytest.raises(InvalidRequest):
        KeysPage(services)._act(_event(action="undefined", target=key_id), _request(sqlite_bench))
    with services.database.reading() as session:
        assert session.scalar(select(ApiKey.revoked_at).where(ApiKey.id == key_id)) is None


def test_rotated_key_is_shown_when_the_list_fails(
    sqlite_bench: Bench, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_id = _made_key(sqlite_bench, services)
    page = KeysPage(services)

    def away(_request: object) -> str:
        raise Unavailable("The database is busy.")

    monkeypatch.setattr(page, "_list", away)
    shown, _ = page._act(_event(action="rotate", target=key_id, choice="none"), _request(sqlite_bench))
    with services.database.reading() as session:
        new = session.scalars(select(ApiKey).where(ApiKey.id != key_id)).one()
    assert f"{new.prefix}_" in shown
