"""POST /v1/ocr: Mistral's own client works by changing the address; every outcome is told apart."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from mistralai.client import Mistral
from mistralai.client.errors import SDKError
from sqlalchemy import select

from models import Job
from portal.api import ocr
from portal.engine.fakes import answers, fails
from portal.engine.fields.schemas import specs_from_schema
from portal.errors import EngineError, Unavailable
from portal.jobs import queries
from tests.api.conftest import (
    Persona,
    Portal,
    assert_problem,
    incoming_files,
    pdf,
    png,
    stored_job,
    stored_pages,
    usage_of,
    wait_until,
)


def data_url(content: bytes, media_type: str = "application/pdf") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def _request(content: bytes | None = None, **options: Any) -> dict[str, Any]:
    document = {"type": "document_url", "document_url": data_url(content or pdf(1))}
    return {"model": "default", "document": document, **options}


@pytest.fixture
def mistral(live: Portal, alice: Persona) -> Iterator[Mistral]:
    """Mistral's client with nothing changed but the address and the key."""
    with Mistral(api_key=alice.key, server_url=live.url, timeout_ms=30_000) as client:
        yield client


def _job_at_work(live: Portal, who: Persona) -> str:
    """The id of the tenant's one job, once the held engine has begun with it."""
    wait_until(lambda: bool(live.engine.order))
    with live.services.database.reading() as session:
        return session.scalars(select(Job.id).where(Job.tenant_id == who.principal.tenant_id)).one()


def test_pdf_is_read_by_the_mistral_client(live: Portal, alice: Persona, mistral: Mistral) -> None:
    live.engine.script = (answers("Invoice 7\nTotal 9.00"),)
    document = {"type": "document_url", "document_url": data_url(pdf(2)), "document_name": "bill.pdf"}
    answer = mistral.ocr.process(model="mistral-ocr-latest", document=document, include_image_base64=True)
    assert [page.index for page in answer.pages] == [0, 1]
    assert answer.pages[0].markdown == "Invoice 7  \nTotal 9.00"
    assert answer.pages[0].images == []
    assert answer.pages[0].dimensions is not None
    assert (answer.pages[0].dimensions.dpi, answer.pages[0].dimensions.width > 0) == (200, True)
    assert answer.model == "fake"
    assert (answer.usage_info.pages_processed, answer.usage_info.doc_size_bytes) == (2, len(pdf(2)))
    [job] = alice.client.get("/v1/jobs").json()["data"]
    assert (job["state"], job["via"], job["documents"][0]["file_name"]) == ("succeeded", "key", "bill.pdf")
    assert usage_of(live, job["id"]) == [("read", 1)] * 2


@pytest.mark.parametrize("shape", ["text", "object"])
def test_image_is_read_in_both_shapes_of_its_url(mistral: Mistral, shape: str) -> None:
    url = data_url(png(), "image/png")
    document = {"type": "image_url", "image_url": url if shape == "text" else {"url": url}}
    assert mistral.ocr.process(model="fake-checkpoint", document=document).pages[0].markdown == "Total 9.00"


@pytest.mark.parametrize("pages", [[0, 2], "0,2", "2, 0-0"])
def test_pages_count_from_zero(mistral: Mistral, pages: Any) -> None:
    document = {"type": "document_url", "document_url": data_url(pdf(4))}
    answer = mistral.ocr.process(model="default", document=document, pages=pages)
    assert [page.index for page in answer.pages] == [0, 2]


def test_blocks_and_scores_come_as_mistral_names_them(live: Portal, mistral: Mistral) -> None:
    live.engine.script = (answers("Invoice 7\nTotal 9.00"),)
    document = {"type": "document_url", "document_url": data_url(pdf(1))}
    options: dict[str, Any] = {"model": "default", "document": document}
    [block] = mistral.ocr.process(**options, confidence_scores_granularity="block").pages[0].blocks
    assert (block.type, block.content) == ("text", "Invoice 7  \nTotal 9.00")
    assert (block.top_left_x, block.top_left_y, block.bottom_right_x, block.bottom_right_y) == (20, 20, 120, 74)
    assert block.confidence_scores.minimum_content_confidence_score == 0.9
    page = mistral.ocr.process(**options, include_blocks=False, confidence_scores_granularity="page").pages[0]
    assert page.blocks is None
    assert page.confidence_scores is not None
    assert page.confidence_scores.average_page_confidence_score == 0.9
    assert mistral.ocr.process(**options).pages[0].confidence_scores is None


def test_mistral_client_is_given_code_and_remedy_when_it_is_refused(live: Portal) -> None:
    with Mistral(api_key="ocr_wrong", server_url=live.url) as client, pytest.raises(SDKError) as refusal:
        client.ocr.process(model="default", document={"type": "document_url", "document_url": data_url(pdf())})
    problem = json.loads(refusal.value.body)
    assert (refusal.value.status_code, problem["code"]) == (401, "api_key_invalid")
    assert problem["remedy"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("table_format", "html"),
        ("extract_header", True),
        ("extract_footer", True),
        ("confidence_scores_granularity", "word"),
        ("bbox_annotation_format", {"type": "json_schema"}),
        ("document_annotation_prompt", "Sum it up"),
    ],
)
def test_option_is_refused_by_name_when_it_cannot_be_honoured(alice: Persona, option: str, value: Any) -> None:
    body = assert_problem(alice.client.post("/v1/ocr", json=_request(**{option: value})), 422, "option_not_offered")
    assert body["detail"].startswith(f"{option}: ")
    assert alice.client.get("/v1/jobs").json()["data"] == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"pages": [-1]}, "pages"),
        ({"pages": []}, "pages"),
        ({"pages": "1-"}, "pages"),
        ({"pages": "5-2"}, "pages"),
        ({"document": None}, "document"),
        ({"document": {"type": "document_url"}}, "document.document_url.document_url"),
        ({"document": {"type": "page"}}, "document"),
        ({"temperature": 1}, "temperature"),
        ({"model": 7}, "model"),
    ],
)
def test_parameter_is_named_when_it_is_wrong(alice: Persona, change: dict[str, Any], named: str) -> None:
    body = assert_problem(alice.client.post("/v1/ocr", json=_request() | change), 422, "invalid_request")
    assert body["detail"].startswith(f"{named}: ")


@pytest.mark.parametrize(
    "url",
    ["https://example.org/a.pdf", "http://127.0.0.1:9/", "file:///etc/passwd", "data:text/plain,hello", "", "scan.pdf"],
)
def test_url_is_never_fetched(alice: Persona, url: str) -> None:
    for document in (
        {"type": "document_url", "document_url": url},
        {"type": "image_url", "image_url": {"url": url}},
    ):
        body = assert_problem(alice.client.post("/v1/ocr", json={"document": document}), 422, "url_refused")
        assert "base64" in body["remedy"]


def test_file_id_is_refused_with_what_to_send_instead(alice: Persona) -> None:
    reply = alice.client.post("/v1/ocr", json={"document": {"type": "file", "file_id": "abc"}})
    assert "data: URL" in assert_problem(reply, 422, "option_not_offered")["remedy"]


def test_data_url_in_another_place_is_not_taken_for_the_document(live: Portal, alice: Persona) -> None:
    body = {"document": {"type": "document_url", "document_url": "data:;base64,AAAA"}, "id": data_url(pdf())}
    assert_problem(alice.client.post("/v1/ocr", json=body), 422, "invalid_request")
    body = {"id": data_url(pdf()), "document": {"type": "document_url", "document_url": "https://example.org/"}}
    assert_problem(alice.client.post("/v1/ocr", json=body), 422, "url_refused")
    assert incoming_files(live) == []


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"%PDF-1.4 nothing", 422, "file_corrupt"),
        (b"plain words", 415, "file_type_unknown"),
        (b"\x89PNG" + bytes(2**20), 413, "file_too_large"),
    ],
)
def test_document_is_refused_as_jobs_refuse_it(
    live: Portal, alice: Persona, content: bytes, status: int, code: str
) -> None:
    assert_problem(alice.client.post("/v1/ocr", json=_request(content)), status, code)
    assert incoming_files(live) == []
    assert alice.client.get("/v1/jobs").json()["data"] == []


def test_page_is_missing_and_explained_when_it_failed(live: Portal, alice: Persona) -> None:
    live.engine.is_held = True
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(alice.client.post, "/v1/ocr", json=_request(pdf(2)))
        job_id = _job_at_work(live, alice)
        live.engine.script = (fails(is_permanent=True, message="The reader stopped."),)
        live.engine.is_held = False
        reply = call.result(timeout=20)
    body = reply.json()
    assert (reply.status_code, body["job_id"]) == (200, job_id)
    [read], [failed] = body["pages"], body["failed_pages"]
    assert {read["index"], failed["index"]} == {0, 1}
    assert (failed["code"], failed["message"]) == ("engine_failed", "The reader stopped.")
    assert body["usage_info"]["pages_processed"] == 1


def test_answer_is_a_refusal_when_every_page_failed(live: Portal, alice: Persona) -> None:
    live.engine.script = (fails(is_permanent=True, message="The reader stopped."),)
    body = assert_problem(alice.client.post("/v1/ocr", json=_request(pdf(2))), 422, "no_page_read")
    assert "The reader stopped." in body["detail"]
    job = stored_job(live, body["job_id"])
    assert job is not None
    assert job.state == "failed"
    assert {pages for _, pages in usage_of(live, job.id)} == {0}


def test_job_goes_on_when_the_wait_elapses(live: Portal, alice: Persona) -> None:
    live.engine.is_held = True
    reply = alice.client.post("/v1/ocr?wait=0.3", json=_request())
    body = assert_problem(reply, 504, "still_running")
    assert int(reply.headers["Retry-After"]) >= 1
    live.engine.is_held = False
    later = alice.client.get(f"{body['links']['self']}?wait=20").json()
    assert (later["id"], later["state"]) == (body["job_id"], "succeeded")


def test_job_is_named_when_the_database_goes_away_while_it_waits(
    live: Portal, alice: Persona, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise Unavailable("The database does not answer.")

    with monkeypatch.context() as broken:
        broken.setattr(queries, "wait", fail)
        body = assert_problem(alice.client.post("/v1/ocr", json=_request()), 503, "unavailable")
    assert "do not send it again" in body["remedy"]
    later = alice.client.get(f"{body['links']['self']}?wait=20").json()
    assert (later["id"], later["state"]) == (body["job_id"], "succeeded")


def test_job_is_cancelled_when_the_client_goes_away(live: Portal, alice: Persona) -> None:
    live.engine.is_held = True
    body = json.dumps(_request(pdf(3))).encode()
    head = (
        f"POST /v1/ocr HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
        job_id = _job_at_work(live, alice)
    wait_until(lambda: {page.state for page in stored_pages(live, job_id)} == {"cancelled"})
    job = stored_job(live, job_id)
    assert job is not None
    assert job.state == "cancelled"
    assert usage_of(live, job_id) == []


def test_answer_is_a_conflict_when_the_job_is_cancelled_meanwhile(live: Portal, alice: Persona, bob: Persona) -> None:
    live.engine.is_held = True
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(alice.client.post, "/v1/ocr", json=_request())
        job_id = _job_at_work(live, alice)
        assert bob.client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200
        assert_problem(call.result(timeout=20), 409, "job_cancelled")


def test_stranger_neither_sees_nor_lists_the_job(alice: Persona, charlie: Persona) -> None:
    job_id = alice.client.post("/v1/ocr", json=_request()).json()["job_id"]
    assert_problem(charlie.client.get(f"/v1/jobs/{job_id}"), 404, "not_found")
    assert charlie.client.get("/v1/jobs").json()["data"] == []


@pytest.mark.parametrize("body", [b"", b"{", b'{"model": "\xff"}', b"[" * 100_000, b'{"a": "' + b"x" * 300_000 + b'"}'])
def test_body_is_malformed_when_it_is_no_json(alice: Persona, body: bytes) -> None:
    reply = alice.client.post("/v1/ocr", content=body, headers={"Content-Type": "application/json"})
    assert_problem(reply, 400, "malformed_body")


def test_document_is_read_when_its_length_is_not_announced(alice: Persona) -> None:
    body = json.dumps(_request()).encode()
    chunks = (body[start : start + 1000] for start in range(0, len(body), 1000))
    reply: httpx.Response = alice.client.post("/v1/ocr", content=chunks)
    assert reply.json()["pages"][0]["markdown"] == "Total 9.00"


def test_page_range_is_said_from_zero_when_a_page_is_out_of_it(mistral: Mistral, alice: Persona) -> None:
    document = {"type": "image_url", "image_url": data_url(png(), "image/png")}
    with pytest.raises(SDKError) as refusal:
        mistral.ocr.process(model="default", document=document, pages=[5])
    problem = json.loads(refusal.value.body)
    assert problem["code"] == "page_out_of_range"
    assert problem["detail"] == "document.png has page 0 alone; page 5 cannot be read."
    assert problem["remedy"].startswith("Choose page 0 alone,")
    assert alice.client.get("/v1/jobs").json()["data"] == []


@pytest.mark.parametrize("pages", ["0-999," * 41_000, "0," * 6000, "\ud8001", "1\udfff", "\0"])
def test_page_list_is_refused_when_it_is_none_at_all(alice: Persona, pages: str) -> None:
    content = json.dumps(_request(pages=pages))
    body = alice.client.post("/v1/ocr", content=content, headers={"Content-Type": "application/json"})
    assert body.status_code in (400, 422)
    assert body.json()["remedy"]


@pytest.mark.parametrize("text", ["a\ud800b", "a\0b"])
def test_any_text_is_answered_when_it_is_no_text_at_all(alice: Persona, text: str) -> None:
    for change in ({"model": text}, {"id": text}, {text: 1}, {"document": {"type": text}}):
        content = json.dumps(_request() | change)
        reply = alice.client.post("/v1/ocr", content=content, headers={"Content-Type": "application/json"})
        assert reply.status_code in (200, 422), reply.text
    named = {"type": "document_url", "document_url": data_url(pdf(1)), "document_name": text}
    reply = alice.client.post("/v1/ocr", content=json.dumps(_request() | {"document": named}))
    assert reply.status_code in (200, 422), reply.text


def test_request_is_refused_at_once_when_its_engine_is_away(
    live: Portal, alice: Persona, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = live.services.jobs.engines

    async def fail() -> None:
        raise EngineError("It does not answer.", is_permanent=False)

    monkeypatch.setattr(live.engine, "probe", fail)  # so that its watch finds it no better
    engines.mark(live.engine, "it does not answer.")
    reply = alice.client.post("/v1/ocr", json=_request())
    engines.mark(live.engine, None)
    body = assert_problem(reply, 503, "engine_unavailable")
    assert "job_id" not in body
    assert 5 <= int(reply.headers["Retry-After"]) <= 15
    assert alice.client.get("/v1/jobs").json()["data"] == []


def test_request_takes_a_place_in_the_waiting_room_while_it_waits(
    live: Portal, alice: Persona, charlie: Persona, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = live.services.jobs.gates.room
    monkeypatch.setattr(room, "places", 1)
    live.engine.is_held = True
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(alice.client.post, "/v1/ocr", json=_request())
        wait_until(lambda: room.taken == 1)
        reply = charlie.client.post("/v1/ocr", json=_request())
        live.engine.is_held = False
        assert held.result().status_code == 200
    assert_problem(reply, 503, "backlog_full")
    assert int(reply.headers["Retry-After"]) >= 1
    assert charlie.client.get("/v1/jobs").json()["data"] == []
    assert room.taken == 0


def test_schema_is_read_in_a_thread_and_refused_when_it_is_too_much(
    alice: Persona, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[object] = []

    def read(schema: Any) -> Any:
        loops.append(asyncio._get_running_loop())
        return specs_from_schema(schema)

    monkeypatch.setattr(ocr, "specs_from_schema", read)
    row = {"type": "object", "properties": {f"c{at}": {"type": "string", "pattern": "a"} for at in range(100)}}
    arrays = {f"a{at}": {"$ref": "#/$defs/rows"} for at in range(95)}
    schema = {"properties": arrays, "$defs": {"rows": {"type": "array", "items": row}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    refusal = alice.client.post("/v1/ocr", json=_request(document_annotation_format=wanted))
    assert_problem(refusal, 422, "invalid_request")
    assert "at most 200" in refusal.json()["detail"]
    assert loops == [None]
