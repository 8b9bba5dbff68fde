from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from models import Member, Tenant
from models.base import new_id
from portal.accounts import passwords, sessions
from portal.db import Database
from tests.web.pages import NEW_PASSWORD, PASSWORD, read, send, sign_in, sign_up
from tests.web.pages.conftest import NewClient


@pytest.fixture
def alice(new_client: NewClient) -> TestClient:
    browser = new_client()
    sign_up(browser)
    return browser


@pytest.fixture
def bob(new_client: NewClient, alice: TestClient, sqlite_database: Database) -> TestClient:
    """A member of alice's tenant."""
    with sqlite_database.transaction() as session:
        tenant = session.query(Tenant).one()
        session.add(
            Member(
                id=new_id("mem"),
                tenant_id=tenant.id,
                email="bob@example.org",
                password_hash=passwords.hashed(PASSWORD),
                role="member",
            )
        )
    browser = new_client()
    sign_in(browser, "bob@example.org")
    return browser


@pytest.fixture
def charlie(new_client: NewClient) -> TestClient:
    browser = new_client()
    sign_up(browser, "Gamma", "charlie@example.org")
    return browser


def _is_signed_in(client: TestClient) -> bool:
    return client.get("/account", follow_redirects=False).status_code == 200


def test_each_persona_sees_itself_alone(alice: TestClient, bob: TestClient, charlie: TestClient) -> None:
    for browser, email, tenant, role in (
        (alice, "alice@example.org", "Alpha", "Owner"),
        (bob, "bob@example.org", "Alpha", "Member"),
        (charlie, "charlie@example.org", "Gamma", "Owner"),
    ):
        text = read(browser.get("/account")).text
        for words in (email, tenant, role):
            assert words in text
        assert "Portal admin" not in text


def test_admin_is_told_so(alice: TestClient, sqlite_database: Database) -> None:
    with sqlite_database.transaction() as session:
        session.execute(update(Member).values(is_admin=True))
    assert "Portal admin" in read(alice.get("/account")).text


def test_stranger_is_sent_to_sign_in_and_back(client: TestClient, alice: TestClient) -> None:
    response = client.get("/account", follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, "/login?next=/account")
    posted = client.post("/account", data={"action": "sign_out_others"}, follow_redirects=False)
    assert (posted.status_code, posted.headers["location"]) == (303, "/login?next=/")


def test_password_is_changed_and_other_browsers_end(
    alice: TestClient, bob: TestClient, charlie: TestClient, new_client: NewClient
) -> None:
    elsewhere = new_client()
    sign_in(elsewhere)
    response = send(alice, "/account", action="change_password", current_password=PASSWORD, new_password=NEW_PASSWORD)
    assert response.headers["location"] == "/account?done=password"
    assert "Your password is changed" in read(alice.get("/account?done=password")).text
    assert _is_signed_in(alice)
    assert not _is_signed_in(elsewhere)
    assert _is_signed_in(bob)
    assert _is_signed_in(charlie)
    assert sign_in(elsewhere).status_code == 401
    assert sign_in(elsewhere, password=NEW_PASSWORD).status_code == 303
    assert sign_in(new_client(), "bob@example.org").status_code == 303


@pytest.mark.parametrize(
    ("current", "new", "status", "field", "words"),
    [
        ("wrong password", NEW_PASSWORD, 401, "current_password", "current password is wrong"),
        (PASSWORD, "short", 422, "new_password", "at least 8"),
        (PASSWORD, PASSWORD, 422, "new_password", "same as the current one"),
        (PASSWORD, "Alice@example.org", 422, "new_password", "must not be the e-mail"),
    ],
)
def test_field_says_why_when_the_password_stays(
    alice: TestClient, new_client: NewClient, current: str, new: str, status: int, field: str, words: str
) -> None:
    response = send(alice, "/account", action="change_password", current_password=current, new_password=new)
    page = read(response)
    assert response.status_code == status
    assert page.input(field)["aria-invalid"] == "true"
    assert words in page.text
    assert "value" not in page.input(field)
    assert sign_in(new_client()).status_code == 303


def test_page_says_when_to_come_back_when_the_current_password_was_guessed(alice: TestClient) -> None:
    guess = {"action": "change_password", "current_password": "wrong password", "new_password": NEW_PASSWORD}
    statuses = [send(alice, "/account", **guess).status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]


def test_other_browsers_end_when_the_member_says_so(alice: TestClient, bob: TestClient, new_client: NewClient) -> None:
    elsewhere = new_client()
    sign_in(elsewhere)
    assert "in 1 other browser." in read(alice.get("/account")).text
    assert send(alice, "/account", action="sign_out_others").status_code == 303
    assert _is_signed_in(alice)
    assert _is_signed_in(bob)
    assert not _is_signed_in(elsewhere)
    assert "You are signed in here only." in read(alice.get("/account")).text


@pytest.mark.parametrize("action", ["sign_out_others", "change_password"])
def test_nothing_is_done_when_the_token_is_anothers(
    alice: TestClient, bob: TestClient, new_client: NewClient, action: str
) -> None:
    elsewhere = new_client()
    sign_in(elsewhere)
    stolen = read(bob.get("/account")).token
    fields = {"action": action, "current_password": PASSWORD, "new_password": NEW_PASSWORD, "csrf_token": stolen}
    assert alice.post("/account", data=fields, follow_redirects=False).status_code == 403
    assert _is_signed_in(elsewhere)
    assert sign_in(new_client()).status_code == 303


def test_nothing_is_done_when_the_action_is_unknown(alice: TestClient) -> None:
    assert send(alice, "/account", action="delete_everything").status_code == 422


def test_cookie_of_an_ended_session_is_worth_nothing(alice: TestClient, sqlite_database: Database) -> None:
    sessions.sign_out(sqlite_database, alice.cookies[sessions.COOKIE_NAME])
    assert not _is_signed_in(alice)
