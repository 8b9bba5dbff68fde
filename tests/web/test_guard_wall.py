"""Who comes in at all: signed-in members, from the portal's own pages, to routes on the allow-list."""

from __future__ import annotations

import http.client
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from portal.web.guard import GradioGuard, GuardRules
from tests.web.gradio_client import Served, event, join, new_hash, upload

HTML = {"Accept": "text/html,application/xhtml+xml", "Origin": ""}


def raw_get(served: Served, target: str, *, token: str = "a", method: str = "GET") -> int:
    """The status of a request whose target is sent as it is."""
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=20)
    connection.putrequest(method, target)
    connection.putheader("Cookie", f"portal_session={token}")
    connection.putheader("Sec-Fetch-Site", "same-origin")
    connection.endheaders()
    with connection.getresponse() as answer:
        status = answer.status
    connection.close()
    return status


@pytest.mark.parametrize("page", ["/", "/history", "/history/", "/history?job=1&x=a%26b"])
def test_stranger_is_sent_to_sign_in_when_it_opens_a_page(guarded: Served, page: str) -> None:
    answer = guarded.client(None).get(page, headers=HTML)
    assert answer.status_code == 303
    assert httpx.URL(answer.headers["location"]).path == "/login"
    assert httpx.URL(answer.headers["location"]).params["next"] == page
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/elsewhere", "/config", "/gradio_api/info", "//evil.example/", "/%5cevil.example"])
def test_stranger_comes_back_to_the_start_when_the_page_is_unknown(guarded: Served, path: str) -> None:
    answer = guarded.client(None).get(guarded.url + path, headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/")


@pytest.mark.parametrize(
    "call",
    [
        ("POST", "/gradio_api/cancel"),
        ("POST", "/gradio_api/reset"),
        ("GET", "/gradio_api/heartbeat/abc"),
        ("GET", "/gradio_api/startup-events"),
        ("GET", "/gradio_api/token"),
        ("GET", "/gradio_api/app_id"),
        ("POST", "/gradio_api/queue/join"),
        ("GET", "/gradio_api/queue/data?session_hash=abc"),
        ("POST", "/gradio_api/run/tick"),
        ("POST", "/gradio_api/component_server/"),
        ("POST", "/gradio_api/upload"),
        ("GET", "/gradio_api/upload_progress?upload_id=x"),
        ("GET", "/gradio_api/file=/etc/passwd"),
        ("GET", "/config"),
        ("GET", "/gradio_api/info"),
        ("GET", "/logout"),
        ("GET", "/"),
        ("HEAD", "/"),
        ("GET", "/nowhere"),
    ],
)
@pytest.mark.parametrize("token", [None, "unknown", ""])
def test_stranger_gets_401_when_it_is_not_a_navigation(
    guarded: Served, call: tuple[str, str], token: str | None
) -> None:
    answer = guarded.client(token).request(*call)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    if call[0] != "HEAD":
        assert answer.json()["code"] == "unauthenticated"
        assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_stranger_calls_gradio_when_there_is_no_guard(bare: Served) -> None:
    stranger = bare.client(None)
    assert stranger.get("/gradio_api/app_id").is_success
    assert stranger.get("/gradio_api/startup-events").is_success
    assert stranger.post("/gradio_api/reset", json={"event_id": "x"}).is_success


@pytest.mark.parametrize("path", ["/favicon.ico", "/manifest.json", "/robots.txt", "/theme.css"])
def test_bundle_is_served_when_nobody_is_signed_in(guarded: Served, path: str) -> None:
    assert guarded.client(None).get(path).status_code == 200


def test_every_call_ends_when_the_session_is_revoked(guarded: Served) -> None:
    member, session_hash = guarded.client("f0"), new_hash()
    path = upload(member, "before")
    assert member.get(f"/gradio_api/file={path}").status_code == 200
    assert httpx.post(f"{guarded.url}/test/end/f0").is_success
    assert member.get(f"/gradio_api/file={path}").status_code == 401
    assert join(member, guarded, [None, "", None], session_hash).status_code == 401
    assert member.get("/", headers=HTML).status_code == 303


def test_stream_ends_when_the_session_is_revoked(tight: Served) -> None:
    member = tight.client("f9", origin="https://ocr.example")
    with member.stream("GET", f"/gradio_api/heartbeat/{new_hash()}") as heartbeat:
        chunks = heartbeat.iter_text()
        assert next(chunks) == "data: ALIVE\n\n"
        time.sleep(0.6)
        assert httpx.post(f"{tight.url}/test/end/f9").is_success
        started = time.monotonic()
        with suppress(httpx.RemoteProtocolError):  # cut off, not ended in good order
            list(chunks)
        assert time.monotonic() - started < 10


def test_cookie_is_not_believed_when_it_comes_twice(guarded: Served) -> None:
    planted = {"Cookie": "portal_session=b; portal_session=a"}
    assert httpx.get(f"{guarded.url}/", headers=planted).status_code == 401
    assert httpx.get(f"{guarded.url}/", headers={"Cookie": "x=1; portal_session=a; y"}).status_code == 200
    assert httpx.get(f"{guarded.url}/", headers={"Cookie": "xportal_session=a"}).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/logout",
        "/login/",
        "/config",
        "/config/",
        "/gradio_api/info",
        "/openapi.json",
        "/gradio_api/openapi.json",
        "/gradio_api/startup-events",
        "/gradio_api/token",
        "/gradio_api/user",
        "/gradio_api/queue/status",
        "/gradio_api/call/echo/abc",
        "/gradio_api/deep_link?session_hash=abc",
        "/gradio_api/runs",
        "/gradio_api/proxy=https://example.hf.space/x",
        "/gradio_api/file=https://example.org/x",
        "/gradio_api/custom_component/a/client/component/index.js",
        "/gradio_api/dev/reload",
        "/gradio_api/vibe-code",
        "/monitoring",
        "/?deep_link=abc",
        "/?page=history",
        "/gradio_api/mcp",
        "/gradio_api/mcp/sse",
    ],
)
def test_member_finds_nothing_when_the_route_is_not_allowed(guarded: Served, path: str) -> None:
    answer = guarded.client("a").get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    page = guarded.client("a").get(path, headers=HTML)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")


def test_nobody_is_signed_out_when_gradios_logout_is_opened(guarded: Served) -> None:
    alice = guarded.client("a")
    assert "set-cookie" not in alice.get("/logout").headers
    assert alice.get("/").status_code == 200


@pytest.mark.parametrize(
    "target",
    [
        "//gradio_api/app_id",
        "/gradio_api//app_id",
        "/gradio_api/app_id/",
        "/GRADIO_API/app_id",
        "/Gradio_api/queue/data?session_hash=abc",
        "/gradio_api/./app_id",
        "/assets/../gradio_api/app_id",
        "/assets/%2e%2e/gradio_api/app_id",
        "/assets/..%2f..%2froutes.py",
        "/assets/%252e%252e/index.html",
        "/static/..%5c..%5croutes.py",
        "/static/%00",
        "/static//etc/passwd",
        "/gradio_api%252fapp_id",
        "/gradio_api/app_id%0a",
        "/gradio_api/app_id%00",
        "/gradio_api/app_id;x",
        "/gradio_api/heartbeat/..%2fapp_id",
        "/gradio_api/heartbeat/a.b",
        "/gradio_api/heartbeat/a%20b",
        "/gradio_api/heartbeat/",
        "/gradio_api/run/tick/",
        "/config%0a",
        "/history%2f..",
    ],
)
def test_nothing_is_found_when_the_path_is_written_otherwise(guarded: Served, target: str) -> None:
    assert raw_get(guarded, target) == 404


def test_route_is_found_when_the_path_is_plainly_encoded(guarded: Served) -> None:
    """Encoded once is the same path to Gradio and to the guard."""
    assert raw_get(guarded, "/gradio_api/%61pp_id") == 200
    assert raw_get(guarded, "/gradio_api%2fapp_id") == 200
    assert raw_get(guarded, "/gradio_api%2fapp_id", token="unknown") == 401


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/", "/gradio_api/queue/join", "/gradio_api/app_id", "/assets/x.js"])
def test_nothing_is_found_when_the_method_is_another(guarded: Served, method: str, path: str) -> None:
    assert raw_get(guarded, path, method=method) in (403, 404)


FOREIGN = [
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": ""},
    {"Origin": "null", "Sec-Fetch-Site": ""},
    {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-site"},
    {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": ""},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_call_is_refused_when_another_origin_makes_it(guarded: Served, headers: dict[str, str]) -> None:
    sent = {name: value for name, value in headers.items() if value}
    cookies = {"Cookie": "portal_session=a"}
    body = event(guarded, "tick", [], new_hash())
    for answer in (
        httpx.post(f"{guarded.url}/gradio_api/run/tick", json=body, headers=sent | cookies),
        httpx.post(f"{guarded.url}/gradio_api/upload", files={"files": ("a", b"b")}, headers=sent | cookies),
        httpx.get(f"{guarded.url}/gradio_api/app_id", headers=sent | cookies),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_call_is_refused_when_it_does_not_say_where_it_comes_from(guarded: Served) -> None:
    body = event(guarded, "tick", [], new_hash())
    answer = httpx.post(f"{guarded.url}/gradio_api/run/tick", json=body, headers={"Cookie": "portal_session=a"})
    assert answer.json()["code"] == "foreign_origin"


def test_foreign_origin_is_served_when_there_is_no_guard(bare: Served) -> None:
    headers = {"Cookie": "portal_session=a", "Origin": "https://evil.example"}
    body = event(bare, "tick", [], new_hash())
    assert httpx.post(f"{bare.url}/gradio_api/run/tick", json=body, headers=headers).is_success


def test_page_opens_when_a_link_of_another_site_leads_to_it(guarded: Served) -> None:
    headers = {"Cookie": "portal_session=a", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    answer = httpx.get(f"{guarded.url}/history", headers=headers | {"Accept": "text/html"})
    assert answer.status_code == 200


def test_only_the_public_address_is_ours_when_one_is_configured(tight: Served) -> None:
    body = event(tight, "tick", [], new_hash())
    ours = tight.client("a", origin="https://ocr.example")
    assert ours.post("/gradio_api/run/tick", json=body).status_code == 200
    assert tight.client("a").post("/gradio_api/run/tick", json=body).status_code == 403
    assert 'window.gradio_config = {"' in ours.get("/").text
    assert '"root":"https://ocr.example"' in ours.get("/").text


def test_page_keeps_its_address_when_a_caller_claims_another(guarded: Served) -> None:
    forged = {
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "X-Gradio-Server": "https://evil.example",
    }
    assert "evil.example" not in guarded.client("a").get("/", headers=forged).text


async def _unreachable(*_: Any) -> None:
    raise AssertionError("Gradio was reached")


def test_websocket_is_closed_before_it_opens() -> None:
    guard = GradioGuard(
        _unreachable, resolve=lambda token, *, address=None: None, rules=GuardRules((), Path("/nowhere"))
    )
    client = TestClient(guard, cookies={"portal_session": "a"})
    with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect("/gradio_api/queue/join"):
        pass
    assert closed.value.code == 1008
