"""/v1/jobs/{id}/fields: a value corrected by a person over HTTP, told who and when, and read back everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from models import Page
from portal.domain import Scope, Task
from portal.engine.fakes import answers
from tests.api.conftest import Persona, Portal, assert_problem, png, usage_of

ROWS = '[{"name": "total", "type": "money", "minimum": "10"}, {"name": "issued", "type": "date", "required": true}]'


@pytest.fixture(autouse=True)
def _with_fields(live: Portal) -> Iterator[None]:
    before = live.engine.capability
    live.engine.capability = replace(before, tasks=frozenset({Task.EXTRACT, Task.FIELDS}))
    yield
    live.engine.capability = before


def _read(who: Persona) -> str:
    files = [("files", ("a.png", png()))]
    asked = {"task": "fields", "fields": ROWS}
    return str(who.client.post("/v1/jobs?wait=20", files=files, data=asked).json()["id"])


def _correct(who: Persona, job: str, *corrections: dict[str, Any]) -> Any:
    return who.client.patch(f"/v1/jobs/{job}/fields", json={"corrections": list(corrections)})


def _stored(live: Portal, job: str) -> Any:
    with live.services.database.reading() as session:
        return session.scalars(select(Page.fields).where(Page.job_id == job)).one()


def _one(path: str, value: object, page: int = 1) -> dict[str, Any]:
    return {"page": page, "path": path, "value": value}


def _values(document: dict[str, Any], key: str = "fields") -> dict[str, Any]:
    return {value["name"]: value for value in document[key]}


def test_corrected_values_are_judged_told_and_read_back(live: Portal, alice: Persona, bob: Persona) -> None:
    job = _read(alice)
    [before] = alice.client.get(f"/v1/jobs/{job}/fields").json()["documents"]
    total = _values(before, "values")["total"]
    assert (total["path"], total["page"], total["state"], before["needs_check"]) == ("total", 1, "rule_failed", True)
    charged, receipt = usage_of(live, job), alice.client.get(f"/v1/jobs/{job}").json()["receipt"]

    answer = _correct(bob, job, _one("total", "19,00 €"), _one("issued", "3 March 2026"))
    assert answer.status_code == 200
    [after] = answer.json()["documents"]
    assert answer.json() == alice.client.get(f"/v1/jobs/{job}/fields").json()
    result = alice.client.get(f"/v1/jobs/{job}/result?format=json").json()
    assert result["documents"][0]["fields"] == after["values"]
    total = _values(result["documents"][0])["total"]
    assert (total["value"], total["currency"], total["state"], total["messages"]) == ("19.00", "EUR", "checked", [])
    assert total["original"] == {"value": "9.00", "raw": "9.00", "currency": None}
    assert total["checked_by"] == bob.principal.email
    assert abs(datetime.fromisoformat(total["checked_at"]) - datetime.now(UTC)) < timedelta(minutes=5)
    csv = alice.client.get(f"/v1/jobs/{job}/result?format=csv").content.decode("utf-8-sig").splitlines()
    assert csv == ["file,to_check,total,total.currency,issued", "a.png,no,19.00,EUR,2026-03-03"]
    assert (usage_of(live, job), alice.client.get(f"/v1/jobs/{job}").json()["receipt"]) == (charged, receipt)

    [broken] = _correct(bob, job, _one("total", "8"), _one("issued", None)).json()["documents"]
    values = _values(broken, "values")
    assert values["total"]["messages"] == ["is less than 10"]
    assert (values["issued"]["value"], values["issued"]["messages"]) == (None, ["required, but not found"])


@pytest.mark.parametrize(
    ("corrections", "status", "code"),
    [
        ([_one("total", "19"), _one("issued", "soon")], 422, "invalid_request"),
        ([_one("total", "19"), _one("nothing", "1")], 422, "invalid_request"),
        ([_one("total", "19"), _one("total", "20", page=2)], 404, "not_found"),
        ([_one("total", 19)], 422, "invalid_request"),
        ([_one("total", "19", page=0)], 422, "invalid_request"),
        ([{"page": 1, "path": "total"}], 422, "invalid_request"),
        ([_one("total", "1" * 2001)], 422, "invalid_request"),
        ([], 422, "invalid_request"),
        ([_one("total", "19")] * 201, 422, "invalid_request"),
    ],
)
def test_no_value_changes_when_one_is_refused(
    live: Portal, alice: Persona, corrections: list[dict[str, Any]], status: int, code: str
) -> None:
    job = _read(alice)
    before = _stored(live, job)
    assert_problem(_correct(alice, job, *corrections), status, code)
    assert _stored(live, job) == before


def test_refusal_names_the_value_when_there_are_several(alice: Persona) -> None:
    refused = _correct(alice, _read(alice), _one("total", "19"), _one("issued", "soon"))
    assert refused.json()["detail"] == "Page 1, issued: 'soon' is no date. No value was changed."


def test_fields_are_the_tenants_own_and_need_the_scope(
    live: Portal, alice: Persona, charlie: Persona, people: Callable[..., Persona]
) -> None:
    job = _read(alice)
    assert_problem(charlie.client.get(f"/v1/jobs/{job}/fields"), 404, "not_found")
    assert_problem(_correct(charlie, job, _one("total", "19")), 404, "not_found")
    reader = people(alice.principal, scopes=(Scope.READ,))
    assert reader.client.get(f"/v1/jobs/{job}/fields").status_code == 200
    assert_problem(_correct(reader, job, _one("total", "19")), 403, "scope_lacking")
    assert "9.00" in str(_stored(live, job))


def test_job_is_refused_when_it_has_no_fields(live: Portal, alice: Persona) -> None:
    job = alice.client.post("/v1/jobs?wait=20", files=[("files", ("a.png", png()))]).json()["id"]
    assert_problem(alice.client.get(f"/v1/jobs/{job}/fields"), 409, "no_fields")
    assert_problem(_correct(alice, job, _one("total", "19")), 409, "no_fields")
    live.engine.script = [answers("")]
    blank = _read(alice)
    assert alice.client.get(f"/v1/jobs/{blank}/fields").status_code == 200
