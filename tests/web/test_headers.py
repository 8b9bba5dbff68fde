"""Security headers on all answers, one request id in the answer, the scope and the log."""

from __future__ import annotations

import httpx
import pytest
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from portal.web.headers import SecurityHeaders, content_security_policy
from tests.web.gradio_client import Served


async def _page(_: Request) -> Response:
    return HTMLResponse("<p>hello</p>")


async def _ids(request: Request) -> Response:
    return JSONResponse([request.state.request_id, structlog.contextvars.get_contextvars().get("request_id")])


async def _text(_: Request) -> Response:
    return PlainTextResponse("x")


async def _own(_: Request) -> Response:
    return HTMLResponse("x", headers={"Content-Security-Policy": "default-src 'none'", "Cache-Control": "private"})


async def _broken(_: Request) -> Response:
    raise RuntimeError("unforeseen")


APP = Starlette(
    routes=[
        Route("/page", _page),
        Route("/ids", _ids),
        Route("/text", _text),
        Route("/own", _own),
        Route("/broken", _broken),
    ]
)


def get(path: str, *, is_https: bool = False, scheme: str = "http", **headers: str) -> httpx.Response:
    app = SecurityHeaders(APP, is_https=is_https)
    with TestClient(app, base_url=f"{scheme}://portal.example", raise_server_exceptions=False) as client:
        return client.get(path, headers=headers)


@pytest.mark.parametrize("path", ["/page", "/text", "/nowhere", "/broken"])
def test_every_answer_has_them_also_when_something_broke(path: str) -> None:
    headers = get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["permissions-policy"].startswith("camera=(self)")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert len(headers["x-request-id"]) == 16


def test_pages_of_ours_run_no_inline_script_and_reach_no_other_origin() -> None:
    policy = content_security_policy()
    assert "unsafe" not in policy
    for directive in policy.split("; "):
        assert set(directive.split()[1:]) <= {"'self'", "'none'", "data:", "blob:"}


def test_request_id_is_ours_when_a_caller_sends_one() -> None:
    answer = get("/ids", **{"X-Request-Id": "chosen-by-caller"})
    in_state, in_log = answer.json()
    assert answer.headers["x-request-id"] == in_state == in_log != "chosen-by-caller"
    assert structlog.contextvars.get_contextvars() == {}
    assert get("/ids").json() != get("/ids").json()


def test_answer_is_not_stored_when_it_is_html_or_for_a_caller_with_credentials() -> None:
    assert get("/page").headers["cache-control"] == "no-store"
    assert get("/text", Cookie="portal_session=x").headers["cache-control"] == "no-store"
    assert get("/text", Authorization="Bearer x").headers["cache-control"] == "no-store"
    assert "cache-control" not in get("/text").headers


def test_answer_keeps_its_own_headers_when_it_sets_them() -> None:
    headers = get("/own", Cookie="portal_session=x").headers
    assert headers["content-security-policy"] == "default-src 'none'"
    assert headers["cache-control"] == "private"


def test_https_is_kept_when_people_come_by_it() -> None:
    assert "strict-transport-security" not in get("/page").headers
    assert get("/page", scheme="https").headers["strict-transport-security"] == "max-age=31536000"
    assert get("/page", is_https=True).headers["strict-transport-security"] == "max-age=31536000"


def test_gradios_page_names_each_script_by_a_fresh_nonce(guarded: Served) -> None:
    answers = [guarded.client("a").get("/") for _ in range(2)]
    nonces = []
    for answer in answers:
        (nonce,) = [word[7:-1] for word in answer.headers["content-security-policy"].split() if word[:7] == "'nonce-"]
        assert answer.text.count("<script") == answer.text.count(f'<script nonce="{nonce}"') > 3
        assert "'unsafe-inline'" not in answer.headers["content-security-policy"].split("style-src")[0]
        assert answer.headers["cache-control"] == "no-store"
        nonces.append(nonce)
    assert len(set(nonces)) == 2


def test_bundle_is_kept_by_browsers_when_its_name_carries_its_hash(guarded: Served) -> None:
    page = guarded.client("a").get("/").text
    script = page.split('crossorigin src="./')[1].split('"')[0]
    answer = guarded.client(None).get(f"/{script}")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert guarded.client(None).get("/assets/none.js").headers["cache-control"] == "no-store"
