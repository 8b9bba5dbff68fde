from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from models import SignInSession
from portal.accounts import sessions
from portal.db import Database
from tests.web.pages import NEW_PASSWORD, PASSWORD, read, send, sign_in, sign_up
from tests.web.pages.conftest import NewClient


def _sessions(database: Database) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(SignInSession)) or 0


@pytest.fixture
def alice(new_client: NewClient) -> TestClient:
    """The browser in which alice signed up."""
    browser = new_client()
    assert sign_up(browser).status_code == 303
    return browser


def test_member_is_let_in_when_the_password_is_right(
    alice: TestClient, client: TestClient, sqlite_database: Database
) -> None:
    response = sign_in(client, "Alice@example.org ")
    assert (response.status_code, response.headers["location"]) == (303, "/")
    signed_in = sessions.resolve(sqlite_database, client.cookies[sessions.COOKIE_NAME])
    assert signed_in is not None
    assert signed_in.principal.email == "alice@example.org"


def test_page_keeps_the_email_and_not_the_password_when_it_was_wrong(
    alice: TestClient, client: TestClient, sqlite_database: Database
) -> None:
    response = sign_in(client, '"><b>@example.org', NEW_PASSWORD, next="/keys")
    page = read(response)
    assert response.status_code == 401
    assert page.input("email")["value"] == '"><b>@example.org'
    assert page.input("next")["value"] == "/keys"
    assert "value" not in page.input("password")
    assert NEW_PASSWORD not in response.text
    assert "The e-mail or the password is wrong." in page.text
    assert page.all("b") == []
    assert _sessions(sqlite_database) == 1


def test_answer_is_the_same_when_the_account_is_unknown(alice: TestClient, client: TestClient) -> None:
    known = sign_in(client, "alice@example.org", "wrong password")
    unknown = sign_in(client, "nobody@example.org", "wrong password")
    assert known.status_code == unknown.status_code == 401
    assert known.text.replace("alice@", "nobody@") == unknown.text


def test_page_says_when_to_come_back_when_five_tries_failed(alice: TestClient, client: TestClient) -> None:
    for _ in range(5):
        assert sign_in(client, password="wrong password").status_code == 401
    response = sign_in(client)
    assert response.status_code == 429
    assert 800 < int(response.headers["retry-after"]) <= 900
    assert "Try again in 15 minutes, or now in a browser in which you have signed in before." in read(response).text
    assert read(response).input("email")["value"] == "alice@example.org"


def test_browser_of_an_earlier_sign_in_comes_in_while_strangers_lock_the_account(
    alice: TestClient, new_client: NewClient
) -> None:
    del alice.cookies[sessions.COOKIE_NAME]
    for number in range(6):
        sign_in(new_client(address=f"198.51.100.{number}"), password="wrong password")
    assert sign_in(new_client(address="198.51.100.9")).status_code == 429
    assert sign_in(alice, password="wrong password").status_code == 401
    assert sign_in(alice).status_code == 303
    assert sign_in(new_client(address="198.51.100.9")).status_code == 429, "the strangers have no new tries by it"


def test_known_browser_has_five_tries_of_its_own_and_none_for_other_accounts(
    alice: TestClient, new_client: NewClient
) -> None:
    del alice.cookies[sessions.COOKIE_NAME]
    sign_up(new_client(), "Beta", "bob@example.org")
    for number in range(5):
        sign_in(new_client(address=f"198.51.100.{number}"), "bob@example.org", "wrong password")
        assert sign_in(alice, password="wrong password").status_code == 401
    assert sign_in(alice).status_code == 429
    assert sign_in(alice, "bob@example.org").status_code == 429, "alice's mark is not bob's"


@pytest.mark.parametrize("target", ["/", "/history?job=job_1", "/keys", "/?task=fields&x=%2F"])
def test_member_goes_where_it_wanted_when_that_is_here(alice: TestClient, client: TestClient, target: str) -> None:
    page = read(client.get("/login", params={"next": target}))
    response = sign_in(client, next=page.input("next")["value"] or "")
    assert response.headers["location"] == target


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.test/",
        "//evil.test/",
        "/\\evil.test/",
        "/\t/evil.test",
        "\\\\evil.test",
        "javascript:alert(1)",
        "history",
        "",
        "/login?next=/",
        "/logout",
        "/" + "x" * 3000,
        "/\r\nSet-Cookie: x=y",
    ],
)
def test_member_goes_to_the_workspace_when_the_target_is_elsewhere(
    alice: TestClient, client: TestClient, target: str
) -> None:
    assert read(client.get("/login", params={"next": target})).input("next")["value"] == "/"
    assert sign_in(client, next=target).headers["location"] == "/"
    signed_in = client.get("/login", params={"next": target}, follow_redirects=False)
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/")


def test_cookie_is_hidden_from_scripts_and_other_sites(alice: TestClient, client: TestClient) -> None:
    cookie = sign_in(client).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie


@pytest.mark.parametrize(
    ("base_url", "variables"),
    [("https://portal.test", {}), ("http://portal.test", {"PUBLIC_URL": "https://portal.test"})],
)
def test_cookies_are_secure_when_people_come_by_https(
    new_client: NewClient, base_url: str, variables: dict[str, str]
) -> None:
    response = new_client(base_url, **variables).get("/login")
    assert "Secure" in response.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "0" * 64, "\u00e9"])
def test_form_is_shown_again_when_its_token_is_wrong(
    alice: TestClient, client: TestClient, sqlite_database: Database, token: str
) -> None:
    client.get("/login")
    fields = {"csrf_token": token, "email": "alice@example.org", "password": PASSWORD}
    response = client.post("/login", data=fields, follow_redirects=False)
    assert response.status_code == 403
    assert read(response).input("email")["value"] == "alice@example.org"
    assert _sessions(sqlite_database) == 1
    fields["csrf_token"] = read(response).token
    assert client.post("/login", data=fields, follow_redirects=False).status_code == 303


def test_token_is_refused_when_it_was_made_for_another_browser(
    alice: TestClient, client: TestClient, new_client: NewClient
) -> None:
    stolen = read(new_client().get("/login")).token
    client.get("/login")
    fields = {"csrf_token": stolen, "email": "alice@example.org", "password": PASSWORD}
    assert client.post("/login", data=fields).status_code == 403
    client.cookies.clear()
    assert client.post("/login", data=fields).status_code == 403


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.test"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}]
)
def test_form_is_refused_when_another_site_sends_it(
    alice: TestClient, client: TestClient, sqlite_database: Database, headers: dict[str, str]
) -> None:
    token = read(client.get("/login")).token
    fields = {"csrf_token": token, "email": "alice@example.org", "password": PASSWORD}
    response = client.post("/login", data=fields, headers=headers, follow_redirects=False)
    assert response.status_code == 403
    assert _sessions(sqlite_database) == 1


def test_form_is_taken_when_our_own_page_sends_it(alice: TestClient, client: TestClient) -> None:
    token = read(client.get("/login")).token
    fields = {"csrf_token": token, "email": "alice@example.org", "password": PASSWORD}
    headers = {"Origin": "http://portal.test", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/login", data=fields, headers=headers, follow_redirects=False).status_code == 303


def test_session_ends_when_signed_out(alice: TestClient, sqlite_database: Database) -> None:
    token = alice.cookies[sessions.COOKIE_NAME]
    response = send(alice, "/logout", form="/account")
    assert response.headers["location"] == "/login?signed_out=1"
    assert sessions.COOKIE_NAME not in alice.cookies
    assert sessions.resolve(sqlite_database, token) is None
    assert "You are signed out." in read(alice.get("/login?signed_out=1")).text


def test_session_stays_when_sign_out_is_forged(alice: TestClient, sqlite_database: Database) -> None:
    token = alice.cookies[sessions.COOKIE_NAME]
    assert alice.get("/logout").status_code == 405
    assert alice.post("/logout", data={"csrf_token": "x"}).status_code == 403
    assert sessions.resolve(sqlite_database, token) is not None


def test_sign_out_is_calm_when_the_session_has_ended(client: TestClient) -> None:
    response = client.post("/logout", data={"csrf_token": "of an ended session"}, follow_redirects=False)
    assert response.headers["location"] == "/login?signed_out=1"


def test_form_is_refused_when_it_is_huge_or_of_another_kind(client: TestClient) -> None:
    assert client.post("/login", data={"email": "x" * 20_000}).status_code == 413
    assert client.post("/login", json={"email": "x"}).status_code == 415
    assert client.post("/login", data={f"f{number}": "" for number in range(30)}).status_code == 422
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/login", content=b"email=\xff\xfe", headers=headers).status_code == 422
