"""/v1/templates and the task fields over HTTP: names, rows, a schema, a template; Mistral's annotation format."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from portal.domain import Task
from portal.engine.fakes import answers
from tests.api.conftest import Persona, Portal, assert_problem, png

ROWS = [{"name": "delivery date", "type": "date", "required": True}]
SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "issued": {"type": ["string", "null"], "format": "date"}},
}


@pytest.fixture(autouse=True)
def _with_fields(live: Portal) -> Iterator[None]:
    before = live.engine.capability
    live.engine.capability = replace(before, tasks=frozenset({Task.EXTRACT, Task.FIELDS}))
    live.engine.script = [answers("Total 9.00\nDelivery date: 2026-03-03")]
    yield
    live.engine.capability = before


def _submit(who: Persona, **parts: str) -> Any:
    files = [("files", ("a.png", png()))]
    return who.client.post("/v1/jobs?wait=20", files=files, data={"task": "fields", **parts})


def test_a_template_is_saved_used_and_deleted(alice: Persona, bob: Persona, charlie: Persona) -> None:
    made = alice.client.post("/v1/templates", json={"name": "delivery notes", "fields": ROWS})
    assert (made.status_code, made.json()["version"], made.json()["fields"]) == (201, 1, ROWS)
    assert bob.client.get("/v1/templates/delivery notes").json() == made.json()
    assert_problem(charlie.client.get("/v1/templates/delivery notes"), 404, "not_found")
    assert_problem(_submit(charlie, template="delivery notes"), 404, "not_found")
    job = _submit(bob, template="delivery notes").json()
    assert (job["state"], job["fields"], job["template"]) == (
        "succeeded",
        ["delivery date"],
        {"name": "delivery notes", "version": 1},
    )
    assert_problem(charlie.client.delete("/v1/templates/delivery notes"), 404, "not_found")
    assert bob.client.delete("/v1/templates/delivery notes").status_code == 204
    assert_problem(alice.client.get("/v1/templates/delivery notes"), 404, "not_found")
    assert_problem(alice.client.delete("/v1/templates/invoice"), 409, "conflict")
    result = alice.client.get(f"/v1/jobs/{job['id']}/result?format=csv")
    assert result.content.decode("utf-8-sig").splitlines() == ["file,to_check,delivery date", "a.png,no,2026-03-03"]


@pytest.mark.parametrize(
    "parts",
    [
        {"fields": "total, delivery date"},
        {"fields": '["total", "delivery date"]'},
        {"fields": '[{"name": "total"}, {"name": "delivery date", "type": "date"}]'},
        {"schema": json.dumps({"properties": {"total": {"type": "number"}, "delivery date": {"type": "string"}}})},
    ],
)
def test_fields_are_read_however_they_are_asked(alice: Persona, parts: dict[str, str]) -> None:
    job = _submit(alice, **parts).json()
    result = alice.client.get(f"/v1/jobs/{job['id']}/result?format=json").json()
    [document] = result["documents"]
    assert [(field["name"], field["value"]) for field in document["fields"]] == [
        ("total", "9.00"),
        ("delivery date", "2026-03-03"),
    ]
    assert [row["name"] for row in result["fields"]] == ["total", "delivery date"]


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({}, 422),
        ({"fields": "total", "template": "invoice"}, 422),
        ({"template": "nothing"}, 404),
        ({"schema": "{}"}, 422),
        ({"schema": "{"}, 422),
        ({"fields": '[{"name": "a", "pattern": "(?=a)"}]'}, 422),
        ({"task": "extract", "template": "invoice"}, 422),
    ],
)
def test_an_order_is_refused_when_its_fields_cannot_be(alice: Persona, parts: dict[str, str], status: int) -> None:
    assert_problem(_submit(alice, **parts), status, "not_found" if status == 404 else "invalid_request")


def test_templates_are_listed_still_when_one_was_to_hold_half_of_a_character(alice: Persona) -> None:
    for part in ('"description":"\\ud800"', '"allowed":["\\udc00"]', '"pattern":"a\\u0000"', '"\\ud800":1'):
        rows = f'{{"name":"half","fields":[{{"name":"a",{part}}}]}}'
        saved = alice.client.post("/v1/templates", content=rows, headers={"Content-Type": "application/json"})
        assert_problem(saved, 422, "invalid_request")
        assert_problem(_submit(alice, fields=f'[{{"name":"a",{part}}}]'), 422, "invalid_request")
    listed = alice.client.get("/v1/templates").json()["data"]
    assert "half" not in [template["name"] for template in listed]


def test_template_is_refused_when_its_name_cannot_be_one(alice: Persona) -> None:
    for path in ("/v1/jobs", "/v1/price"):
        order = {"task": "fields", "template": "a\0b"}
        reply = alice.client.post(path, files=[("files", ("a.png", png()))], data=order)
        assert_problem(reply, 422, "invalid_request")


def test_mistrals_annotation_format_is_answered_as_the_schema_asks(alice: Persona) -> None:
    document = {"type": "document_url", "document_url": "data:image/png;base64," + base64.b64encode(png()).decode()}
    body = {
        "document": document,
        "document_annotation_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    }
    answer = alice.client.post("/v1/ocr", json=body).json()
    assert json.loads(answer["document_annotation"]) == {"total": 9.0, "issued": None}
    assert answer["pages"][0]["markdown"]
    body["document_annotation_format"] = {"type": "json_schema"}
    assert_problem(alice.client.post("/v1/ocr", json=body), 422, "invalid_request")


def test_a_csv_is_refused_when_the_job_has_no_fields(alice: Persona) -> None:
    job = alice.client.post("/v1/jobs?wait=20", files=[("files", ("a.png", png()))]).json()
    assert_problem(alice.client.get(f"/v1/jobs/{job['id']}/result?format=csv"), 409, "no_fields")
