"""The status contract: each refusal has its status, code and remedy, repeats no secret, and leaves pages alone."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import structlog
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi.testclient import TestClient
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas
from sqlalchemy import update

import portal.api
from models import ApiKey
from portal.accounts import api_keys
from portal.api.contract import REFUSALS
from portal.api.problems import is_api_path
from portal.db import Database
from portal.domain import Scope
from portal.engine.fakes import fails
from portal.errors import Forbidden, PortalError
from portal.http.problems import STATUS_OF_CODE, problem
from portal.services import Services
from tests.api.conftest import Persona, Portal, assert_problem, pdf, png
from tests.api.test_ocr import data_url
from tests.ledger import limit_tenant


def _submit(who: Persona, content: bytes, name: str = "scan.bin", **form: str) -> httpx.Response:
    return who.client.post("/v1/jobs", files=[("files", (name, content))], data=form)


def _encrypted_pdf() -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption("secret"))
    canvas.drawString(10, 10, "hidden")
    canvas.save()
    return buffer.getvalue()


def _huge_png() -> bytes:
    buffer = io.BytesIO()
    Image.new("1", (10_000, 6_000)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "file_empty"),
        (b"words", 415, "file_type_unknown"),
        (b"%PDF-1.4 nothing", 422, "file_corrupt"),
        (_encrypted_pdf(), 422, "file_encrypted"),
        (_huge_png(), 422, "too_many_pixels"),
        (pdf(21), 422, "too_many_pages"),
        (bytes(2**20 + 1), 413, "file_too_large"),
    ],
)
def test_file_is_refused_by_name_with_its_own_status(alice: Persona, content: bytes, status: int, code: str) -> None:
    body = assert_problem(_submit(alice, content, "scan-7.bin"), status, code)
    assert "scan-7.bin" in body["detail"]
    assert alice.client.get("/v1/jobs").json()["data"] == []


def test_order_is_refused_with_its_own_code(alice: Persona) -> None:
    files = [("files", (f"{number}.png", png())) for number in range(5)]
    assert_problem(alice.client.post("/v1/jobs", files=files), 422, "too_many_files")
    assert_problem(alice.client.post("/v1/jobs", files={"task": (None, "extract")}), 422, "no_files")
    assert_problem(_submit(alice, png(), options='{"engine": "other"}'), 422, "unknown_model")
    assert_problem(_submit(alice, png(), options='{"pages": "2"}'), 422, "page_out_of_range")
    body = assert_problem(_submit(alice, png(), task="translate"), 422, "task_unavailable")
    assert "reads text only" in body["detail"]
    assert alice.client.get("/v1/jobs").json()["data"] == []


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"{}", "application/json"),
        (b"--b--", "multipart/form-data"),
        (b"nothing", "multipart/form-data; boundary=b"),
        (
            b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nx',
            "multipart/form-data; boundary=b",
        ),
    ],
)
def test_form_is_malformed_when_it_is_not_whole(alice: Persona, content: bytes, content_type: str) -> None:
    reply = alice.client.post("/v1/jobs", content=content, headers={"Content-Type": content_type})
    assert_problem(reply, 400, "malformed_body")


def test_whole_portal_is_busy_with_a_time_to_come_back(
    live: Portal, alice: Persona, charlie: Persona, dora: Persona
) -> None:
    live.engine.is_held = True
    for who in (alice, charlie):
        assert _submit(who, pdf(14)).status_code == 202
    reply = _submit(dora, pdf(14))
    assert_problem(reply, 503, "backlog_full")
    assert int(reply.headers["Retry-After"]) >= 1
    assert dora.client.get("/v1/jobs").json()["data"] == []
    limit_tenant(live.services.database, alice.principal.tenant_id, pages_in_flight=15)
    reply = _submit(alice, png())
    assert reply.status_code == 202
    reply = _submit(alice, png())
    body = assert_problem(reply, 429, "too_many_in_flight")
    assert (body["limit"], body["allowed"], body["used"]) == ("pages_in_flight", 15, 15)
    assert int(reply.headers["Retry-After"]) >= 1
    assert [reply.headers[f"X-RateLimit-{name}"] for name in ("Resource", "Limit", "Remaining")] == [
        "pages_in_flight",
        "15",
        "0",
    ]
    for who in (alice, charlie):
        for job in who.client.get("/v1/jobs").json()["data"]:
            who.client.post(f"{job['links']['cancel']}")


def test_caller_is_refused_by_kind_of_key(live: Portal, alice: Persona, people: Callable[..., Persona]) -> None:
    def ask(**headers: str) -> httpx.Response:
        return httpx.get(f"{live.url}/v1/me", headers=headers)

    unproven = (
        (ask(), "unauthenticated"),
        (ask(Cookie="portal_session=abc"), "unauthenticated"),
        (ask(Authorization=f"Basic {alice.key}"), "unauthenticated"),
        (ask(Authorization="Bearer nonsense"), "api_key_invalid"),
        (ask(Authorization=f"Bearer {alice.key[:-1]}{'a' if alice.key[-1] != 'a' else 'b'}"), "api_key_invalid"),
    )
    for reply, code in unproven:
        assert_problem(reply, 401, code)
        assert reply.headers["WWW-Authenticate"] == "Bearer"
    ended = people(alice.principal, expires_at=datetime.now(UTC) + timedelta(days=1))
    with live.services.database.transaction() as session:
        session.execute(
            update(ApiKey)
            .where(ApiKey.tenant_id == alice.principal.tenant_id, ApiKey.expires_at.is_not(None))
            .values(expires_at=datetime.now(UTC) - timedelta(seconds=1))
        )
    assert_problem(ended.client.get("/v1/me"), 401, "api_key_expired")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/v1/", 404, "not_found"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("POST", "/v1/completions", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("PUT", "/v1/jobs", 405, "method_not_allowed"),
        ("GET", "/v1/ocr", 405, "method_not_allowed"),
        ("PATCH", "/v1/jobs/job_1", 405, "method_not_allowed"),
        ("POST", "/livez", 405, "method_not_allowed"),
    ],
)
def test_unknown_route_of_the_api_is_a_problem(live: Portal, method: str, path: str, status: int, code: str) -> None:
    reply = httpx.request(method, live.url + path)
    body = assert_problem(reply, status, code)
    if status == 405:
        assert reply.headers["Allow"]
    assert path not in body["detail"]


def test_unknown_page_is_left_to_the_pages(live: Portal) -> None:
    for path in ("/nothing", "/v1x", "/account/v1"):
        reply = httpx.get(live.url + path)
        assert (reply.status_code, reply.text) == (404, "<h1>a page</h1>")


def test_error_of_a_page_goes_to_the_translator_of_pages() -> None:
    app = FastAPI()

    @app.get("/{rest:path}")
    def refuse(rest: str) -> None:
        raise Forbidden("Not yours.")

    @app.exception_handler(PortalError)
    async def page_of(request: Request, error: PortalError) -> HTMLResponse:
        return HTMLResponse(f"<h1>{error.message}</h1>", status_code=403)

    portal.api.install(app)
    with TestClient(app) as client:
        assert client.get("/account").text == "<h1>Not yours.</h1>"
        reply = client.get("/v1/things")
    assert (reply.status_code, reply.json()["code"]) == (403, "forbidden")


def test_only_paths_of_the_api_are_translated() -> None:
    assert all(map(is_api_path, ("/v1", "/v1/", "/v1/jobs", "/livez", "/readyz", "/openapi.json")))
    assert not any(map(is_api_path, ("/", "/docs", "/v1x", "/login", "/files/v1/jobs", "/livez/x")))


@contextlib.contextmanager
def broken(live: Portal, **parts: object) -> Iterator[TestClient]:
    """An app of its own in this process, over the live portal's parts but for those that are broken."""
    services: Services = dataclasses.replace(live.services, **parts)  # type: ignore[arg-type]
    app = FastAPI(openapi_url=None)
    app.include_router(portal.api.router(services))
    portal.api.install(app)
    with TestClient(app) as client:
        yield client


def test_answer_is_neutral_and_logged_when_a_bug_shows(live: Portal, alice: Persona) -> None:
    with broken(live, peppers=None) as client, structlog.testing.capture_logs() as logged:
        reply = client.get("/v1/me", headers={"Authorization": f"Bearer {alice.key}"})
    body = assert_problem(reply, 500, "internal")  # type: ignore[arg-type]
    assert "NoneType" not in reply.text
    [entry] = [entry for entry in logged if entry["event"] == "request failed"]
    assert entry["request_id"] == body["request_id"]
    assert isinstance(entry["exc_info"], AttributeError)


def test_service_is_unavailable_when_the_database_is_away(live: Portal, alice: Persona) -> None:
    away = Database("postgresql+psycopg://portal:hunter2@127.0.0.1:1/portal")
    with broken(live, database=away) as client:
        reply = client.get("/v1/me", headers={"Authorization": f"Bearer {alice.key}"})
    assert_problem(reply, 503, "unavailable")  # type: ignore[arg-type]
    assert reply.headers["Retry-After"] == "30"
    assert "hunter2" not in reply.text


def test_service_is_unavailable_when_the_storage_is_away(live: Portal, alice: Persona, tmp_path: Path) -> None:
    settings = live.services.settings
    moved = dataclasses.replace(settings, store=settings.store.model_copy(update={"data_dir": tmp_path}))
    with broken(live, settings=moved) as client:
        (tmp_path / "incoming").rmdir()
        (tmp_path / "incoming").write_text("in the way")
        headers = {"Authorization": f"Bearer {alice.key}"}
        reply = client.post("/v1/jobs", files=[("files", ("a.png", png()))], headers=headers)
    body = assert_problem(reply, 503, "storage_unavailable")  # type: ignore[arg-type]
    assert str(tmp_path) not in str(body)


def test_key_is_in_no_answer_and_no_log_when_it_is_sent_astray(
    live: Portal, alice: Persona, caplog: pytest.LogCaptureFixture
) -> None:
    key, client = alice.key, alice.client
    secret = key.rpartition("_")[2]
    document = {"type": "document_url", "document_url": data_url(png(), "image/png")}
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as logged:
        replies = [
            httpx.get(f"{live.url}/v1/me", headers={"Authorization": key}),
            httpx.get(f"{live.url}/v1/me", headers={"Authorization": f"Bearer {key}x"}),
            httpx.get(f"{live.url}/v1/me?key={key}"),
            client.get(f"/v1/{key}"),
            client.get(f"/v1/jobs/{key}"),
            client.get(f"/v1/jobs?before={key}"),
            client.get(f"/v1/jobs?limit={key}"),
            client.get(f"/v1/jobs/job_1/result?format={key}"),
            client.delete(f"/v1/keys/{key}"),
            client.post("/v1/keys", json={key: key}),
            client.post("/v1/keys", json={"name": "a", "scopes": [key]}),
            client.post("/v1/ocr", json={"model": key, "document": document}),
            client.post("/v1/ocr", json={"document": document, key: 1}),
            client.post("/v1/ocr", json={"document": document, "pages": key}),
            client.post("/v1/ocr", json={"document": {"type": "file", "file_id": key}}),
            _submit(alice, b"words", f"{key}.png"),
            _submit(alice, png(), task=key),
            _submit(alice, png(), options=f'{{"engine": "{key}"}}'),
            _submit(alice, png(), options=f'{{"{key}": 1}}'),
            _submit(alice, png(), **{key: "1"}),
        ]
    for reply in replies:
        assert 400 <= reply.status_code < 500, reply.request.url
        assert secret not in reply.text, reply.request.url
        assert secret not in str(reply.headers)
    assert secret not in str(logged)
    # Not ours: the client's records, and the server's access log, which is off outside of pytest.
    others = ("httpx", "httpcore", "uvicorn.access")
    own_records = [record.getMessage() for record in caplog.records if not record.name.startswith(others)]
    assert secret not in str(own_records)


def test_every_listed_code_has_the_status_that_its_kind_gives() -> None:
    for code in STATUS_OF_CODE.keys() - {"unsupported_media_type"}:  # that is of the pages
        assert REFUSALS[code].status == STATUS_OF_CODE[code]


def test_failed_page_is_no_failure_of_the_service(live: Portal, alice: Persona) -> None:
    live.engine.script = (fails(is_permanent=True),)
    reply = alice.client.post("/v1/jobs?wait=20", files=[("files", ("scan.png", png()))])
    assert (reply.status_code, reply.json()["state"]) == (200, "failed")


def test_scope_is_checked_before_the_body_is_read(alice: Persona, people: Callable[..., Persona]) -> None:
    reader = people(alice.principal, scopes=(Scope.READ,))
    reply = reader.client.post("/v1/ocr", content=b"not json", headers={"Content-Type": "text/plain"})
    assert_problem(reply, 403, "scope_lacking")


@pytest.mark.parametrize("boundary", ["b" * 5000, '""', "b" * 300])
def test_form_is_malformed_when_its_boundary_is_none(alice: Persona, boundary: str) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    assert_problem(alice.client.post("/v1/jobs", content=b"--b--", headers=headers), 400, "malformed_body")


@pytest.mark.parametrize("given", ["%00", "a%00", "%ff", "x" * 61])
def test_no_key_is_found_when_none_can_have_the_id(alice: Persona, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "revoke", None)
    assert_problem(alice.client.delete(f"/v1/keys/{given}"), 404, "api_key_unknown")


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({}, "No API key"),
        ({"X-API-Key": "ocr_secret"}, "X-API-Key"),
        ({"api-key": "ocr_secret"}, "Api-Key"),
        ({"Authorization": "Basic b2NyX3NlY3JldA=="}, "Basic"),
        ({"Authorization": "ocr_secret"}, "Bearer"),
        ({"Authorization": "Bearer"}, "No API key"),
    ],
)
def test_caller_is_told_where_the_key_belongs_when_it_comes_otherwise(
    live: Portal, headers: dict[str, str], named: str
) -> None:
    reply = httpx.get(f"{live.url}/v1/me", headers=headers)
    body = assert_problem(reply, 401, "unauthenticated")
    assert named in body["detail"]
    assert "Authorization: Bearer" in body["remedy"]
    assert "secret" not in reply.text


@pytest.mark.parametrize(
    ("method", "path", "location"),
    [
        ("GET", "/v1/jobs/", "/v1/jobs"),
        ("GET", "/v1/jobs/?limit=1&before=a%20b", "/v1/jobs?limit=1&before=a%20b"),
        ("POST", "/v1/ocr/", "/v1/ocr"),
        ("DELETE", "/v1/jobs/job_1/", "/v1/jobs/job_1"),
        ("GET", "/v1/jobs/a%00%20b/", "/v1/jobs/a%00%20b"),
    ],
)
def test_slash_too_many_is_answered_with_the_right_address(live: Portal, method: str, path: str, location: str) -> None:
    reply = httpx.request(method, f"{live.url}{path}")
    assert (reply.status_code, reply.headers["Location"]) == (308, location)


def test_slash_too_many_leads_to_the_answer_when_it_is_followed(alice: Persona) -> None:
    reply = alice.client.get("/v1/jobs/?limit=1", follow_redirects=True)
    assert (reply.status_code, reply.json()["object"]) == (200, "list")


def test_titles_are_written_alike(live: Portal, alice: Persona) -> None:
    titles = {
        httpx.get(f"{live.url}/v1/nothing").json()["title"],
        httpx.put(f"{live.url}/v1/jobs").json()["title"],
        httpx.get(f"{live.url}/v1/me", headers={"Authorization": "Bearer ocr_x"}).json()["title"],
        alice.client.post("/v1/ocr", json={}).json()["title"],
    }
    assert titles == {"Not found", "Method not allowed", "API key invalid", "Invalid request"}


def test_problem_is_answered_whatever_text_it_holds() -> None:
    answer = problem({"type": "http"}, PortalError("no \ud800 text", remedy="\udfff"))
    assert json.loads(answer.body)["detail"] == "no ? text"
