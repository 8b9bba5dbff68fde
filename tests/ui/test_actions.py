"""Buttons name an action: one that nobody knows does nothing, and a new key is shown whatever else fails."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select

from models import ApiKey
from portal.accounts import api_keys
from portal.accounts.peppers import Peppers
from portal.domain import JobState, Scope
from portal.errors import InvalidRequest, TooManySamples, Unavailable
from portal.jobs import claims, endings, handbacks, queries
from portal.jobs.queries import get_job
from portal.jobs.submission import Order
from portal.services import Services
from portal.ui.history import HistoryPage
from portal.ui.intake_form import IntakeForm
from portal.ui.keys import KeysPage
from portal.ui.samples import Sample
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


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"q": "x" * 201}, "at most 8 words and 200 characters"),
        ({"q": "a b c d e f g h i"}, "at most 8 words and 200 characters"),
        ({"group": "done", "before": "job_of_nobody"}, "There is no such job."),
        ({"group": "done", "before": "-<img src=x>"}, "is no place in the list"),
    ],
)
def test_reason_stands_in_the_lists_place_when_it_cannot_be_had(
    sqlite_bench: Bench, services: Services, query: dict[str, str], words: str
) -> None:
    page, request = HistoryPage(services), _request(sqlite_bench, **query)
    for listed in (page._load(request)[1], page._search(request)[0]):
        assert words in listed
        assert 'href="/history"' in listed
        assert "<img" not in listed


def test_deleted_job_is_told_although_the_list_cannot_be_had(sqlite_bench: Bench, services: Services) -> None:
    [first, second] = sqlite_bench.run(sqlite_bench.submit(), sqlite_bench.submit())
    request = _request(sqlite_bench, q="x" * 201)
    listed, told = HistoryPage(services)._act(_event(action="delete", target=f"{first.id},{second.id}"), request)
    assert ("200 characters" in listed, "Deleted 2 jobs." in told) == (True, True)


def test_busy_search_offers_one_group_in_the_lists_place(sqlite_bench: Bench, services: Services) -> None:
    searches, own = sqlite_bench.context.heavy_reads.searches, sqlite_bench.alice.tenant_id
    with searches.one(own), searches.one(own):
        listed = HistoryPage(services)._load(_request(sqlite_bench, q="a&b"))[1]
    assert "searches of your tenant are running" in listed
    assert 'href="/history?q=a%26b&amp;group=done"' in listed


def test_fourth_sample_is_refused_undrawn_while_three_wait(
    sqlite_bench: Bench, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, request, asked = IntakeForm(services), _request(sqlite_bench), _event(target="receipt")
    for component in ("started", "notice"):  # stand for those that `lay` would make
        monkeypatch.setattr(form, component, component, raising=False)
    for _ in range(3):
        assert form._run_sample(asked, request)[form.started]
    charlie = _request(sqlite_bench)
    charlie.request.scope["state"]["principal"] = sqlite_bench.charlie
    assert form._run_sample(asked, charlie)[form.started]
    monkeypatch.setattr(Sample, "draw", lambda *_: pytest.fail("drawn"))
    told = form._run_sample(asked, request)
    assert (told[form.started], "3 samples of your tenant" in told[form.notice]) == ("", True)
    with pytest.raises(TooManySamples):  # nor by several at once, which all looked before the third was stored
        sqlite_bench.submit(order=Order(is_sample=True))
    assert sqlite_bench.submit().page_count == 1


_COMPONENTS = ("_intake", "_head", "_job", "_notice", "_bar", "_progress", "_timer", "_viewer", "_shown")


def test_tick_reads_the_pages_only_when_one_has_changed(
    sqlite_bench: Bench, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite_bench.context.engines.mark(sqlite_bench.engine, None)
    page, job = WorkspacePage(services), sqlite_bench.submit(pages=3)
    request = _request(sqlite_bench, job=job.id)
    for component in _COMPONENTS:  # stand for those that `lay` would make
        monkeypatch.setattr(page, component, component, raising=False)
    reads: list[str] = []
    whole = queries.get_job
    monkeypatch.setattr(queries, "get_job", lambda *args: reads.append(args[2]) or whole(*args))
    mark = page._refresh(request)["_shown"]
    assert len(reads) == 1
    for _ in range(3):
        quiet = page._tick(mark, request)
        assert ("_viewer" in quiet, "Next in line" in quiet["_progress"]) == (False, True)
    assert len(reads) == 1
    with services.database.transaction() as session:
        held = claims.claim(session, "worker", sqlite_bench.alice.tenant_id, job.id)
    told = page._tick(mark, request)
    assert (json.loads(told["_viewer"])["pages"], told["_shown"] != mark) == ("rqq", True)
    with services.database.transaction() as session:
        assert held is not None
        handbacks.release(session, held)
        claims.claim(session, "worker", sqlite_bench.alice.tenant_id, job.id)
    assert page._tick(told["_shown"], request)["_shown"] != told["_shown"], "as many of each state, but not the same"
    assert len(reads) == 3
    endings.cancel(sqlite_bench.context, sqlite_bench.alice, job.id)
    endings.delete(sqlite_bench.context, sqlite_bench.alice, job.id)
    assert "Job not found" in page._tick(mark, request)["_notice"]
