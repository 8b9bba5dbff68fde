from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from sqlalchemy import select

from models import Invite, Member, Tenant
from portal.accounts import invites, known_browsers, sessions, suspension
from portal.db import Database
from portal.domain import TenantState
from tests.web.pages import PASSWORD, Page, read, send, sign_in, sign_up
from tests.web.pages.conftest import NewClient


def _members(database: Database) -> dict[str, tuple[str, bool]]:
    with database.reading() as session:
        return {row.email: (row.role, row.removed_at is not None) for row in session.scalars(select(Member))}


def _id(database: Database, email: str) -> str:
    with database.reading() as session:
        return session.scalars(select(Member.id).where(Member.email == email)).one()


def _token_made(page: Page) -> str:
    return (page.input_of("invite-link")["value"] or "").partition("#")[2]


def _invited(client: TestClient, **fields: str) -> str:
    """The token of an invite that the signed-in owner makes."""
    response = send(client, "/members", action="invite", **({"role": "member", "days": "7", "note": ""} | fields))
    assert response.status_code == 200
    return _token_made(read(response))


def _join(client: TestClient, token: str, email: str = "bob@example.org", **fields: str) -> Response:
    return send(client, "/invite", action="join", token=token, email=email, password=PASSWORD, **fields)


@pytest.fixture
def alice(client: TestClient) -> TestClient:
    """The owner of Alpha, signed in."""
    sign_up(client)
    return client


@pytest.fixture
def bob(alice: TestClient, new_client: NewClient) -> TestClient:
    """Her member, who came with an invite."""
    joined = new_client()
    assert _join(joined, _invited(alice)).status_code == 303
    return joined


@pytest.fixture
def charlie(new_client: NewClient) -> TestClient:
    """The owner of another tenant."""
    stranger = new_client()
    sign_up(stranger, "Gamma", "charlie@example.org")
    return stranger


def test_guest_joins_when_the_link_is_opened(
    alice: TestClient, new_client: NewClient, sqlite_database: Database
) -> None:
    made = send(alice, "/members", action="invite", role="member", days="3", note="For <b>Bob</b>")
    page = read(made)
    assert made.headers["cache-control"] == "no-store"
    link = page.input_of("invite-link")["value"] or ""
    assert re.fullmatch(r"http://portal\.test/invite#[\w-]{43}", link)
    assert "For <b>Bob</b>" in page.text
    assert link not in alice.get("/members").text
    guest = new_client()
    shown = read(send(guest, "/invite", token=link))
    assert "Join Alpha" in shown.text
    assert "alice@example.org invites you as a member" in shown.text
    joined = _join(guest, shown.input("token")["value"] or "")
    assert (joined.status_code, joined.headers["location"]) == (303, "/")
    assert _members(sqlite_database)["bob@example.org"] == ("member", False)
    assert known_browsers.COOKIE_NAME in guest.cookies
    assert "bob@example.org" in read(alice.get("/members")).text
    late = _join(new_client(), link.partition("#")[2], "dora@example.org")
    assert late.status_code == 404
    assert "may have been used" in read(late).text
    assert "dora@example.org" not in _members(sqlite_database)


def test_form_says_what_is_wrong_and_the_link_stays_good(
    alice: TestClient, new_client: NewClient, sqlite_database: Database
) -> None:
    token, guest = _invited(alice), new_client()
    assert read(_join(guest, token, "bob")).input("email")["aria-invalid"] == "true"
    taken = _join(guest, token, "alice@example.org")
    assert taken.status_code == 409
    assert read(taken).input("email")["aria-invalid"] == "true"
    assert PASSWORD not in taken.text
    assert send(guest, "/invite", token="guess").status_code == 404
    assert guest.post("/invite", data={"token": token, "action": "join", "csrf_token": "x"}).status_code == 403
    assert _join(guest, token).status_code == 303


@pytest.mark.parametrize("mode", ["open", "invite", "closed"])
def test_invite_for_a_new_tenant_works_in_each_mode(
    new_client: NewClient, sqlite_database: Database, mode: str
) -> None:
    with sqlite_database.transaction() as session:
        made = invites.create(session, None, invites.InviteTerms(), actor="operator")
    guest = new_client(REGISTRATION=mode, TIME_ZONE="Pacific/Auckland")
    signup = guest.get("/signup")
    assert signup.status_code == (200 if mode == "open" else 403)
    assert ("/invite" in signup.text) == (mode == "invite")
    assert ("/invite" in guest.get("/login").text) == (mode == "invite")
    assert "The operator invites you" in read(send(guest, "/invite", token=made.token)).text
    assert _join(guest, made.token, tenant_name="").status_code == 422
    assert _join(guest, made.token, tenant_name="Beta").status_code == 303
    assert _members(sqlite_database) == {"bob@example.org": ("owner", False)}
    with sqlite_database.reading() as session:
        assert session.scalars(select(Tenant.time_zone)).all() == ["Pacific/Auckland"]


def test_signed_in_visitor_is_told_to_sign_out_first(alice: TestClient) -> None:
    token = _invited(alice)
    assert "sign out first" in read(alice.get("/invite")).text
    answer = alice.post("/invite", data={"token": token, "action": "join"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/invite")


def test_removed_member_is_signed_out_at_its_next_request(
    alice: TestClient, bob: TestClient, sqlite_database: Database
) -> None:
    path = f"/members/{_id(sqlite_database, 'bob@example.org')}"
    assert bob.get("/account").status_code == 200
    page = read(alice.get(path))
    assert "1 browser and 0 API keys end at once" in page.text
    response = alice.post(path, data={"csrf_token": page.token, "action": "remove"}, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, "/members?done=removed")
    assert "Its browsers are signed out" in read(alice.get("/members?done=removed")).text
    assert bob.get("/account", follow_redirects=False).headers["location"] == "/login?next=/account"
    assert sign_in(bob, "bob@example.org").status_code == 401
    assert alice.get(path).status_code == 404


def test_member_and_stranger_change_nothing(
    alice: TestClient, bob: TestClient, charlie: TestClient, sqlite_database: Database
) -> None:
    listed = read(bob.get("/members"))
    assert "alice@example.org" in listed.text
    assert "Invite somebody" not in listed.text
    assert not [link for link in listed.all("a") if (link["href"] or "").startswith("/members/")]
    assert "alice@example.org" not in charlie.get("/members").text
    path, own = f"/members/{_id(sqlite_database, 'alice@example.org')}", read(bob.get("/account")).token
    with sqlite_database.transaction() as session:
        tenant_id = session.scalars(select(Tenant.id).where(Tenant.name == "Alpha")).one()
        made = invites.create(session, tenant_id, invites.InviteTerms(), actor="operator")
    strange = read(charlie.get("/account")).token
    for action in ("remove", "make_member", "transfer"):
        fields = {"action": action, "password": PASSWORD}
        assert bob.post(path, data=fields | {"csrf_token": own}).status_code == 403
        assert charlie.post(path, data=fields | {"csrf_token": strange}).status_code == 404
        assert alice.post(path, data=fields | {"csrf_token": "x"}).status_code == 403
    revoke = {"action": "revoke_invite", "invite_id": made.view.id}
    assert bob.post("/members", data=revoke | {"csrf_token": own}).status_code == 403
    assert charlie.post("/members", data=revoke | {"csrf_token": strange}).status_code == 404
    assert bob.post("/members", data={"action": "invite", "csrf_token": own}).status_code == 403
    assert charlie.get(path).status_code == 404
    assert bob.get("/members/%00").status_code == 404
    assert send(alice, "/members", action="revoke_invite", invite_id="a\0").status_code == 422
    assert alice.post(path, data={"action": "burn", "csrf_token": own}).status_code == 422
    with sqlite_database.reading() as session:
        assert session.scalars(select(Invite).where(Invite.id == made.view.id)).one().revoked_at is None
    assert list(_members(sqlite_database).values()) == [("owner", False), ("member", False), ("owner", False)]


def test_ownership_is_handed_over_with_the_password_typed_again(
    alice: TestClient, bob: TestClient, sqlite_database: Database
) -> None:
    path = f"/members/{_id(sqlite_database, 'bob@example.org')}"
    wrong = send(alice, path, action="transfer", password="wrong password")
    assert wrong.status_code == 401
    assert read(wrong).input("password")["aria-invalid"] == "true"
    done = send(alice, path, action="transfer", password=PASSWORD)
    assert (done.status_code, done.headers["location"]) == (303, "/members?done=transferred")
    assert "Invite somebody" in read(bob.get("/members")).text
    assert "Invite somebody" not in read(alice.get("/members")).text
    mistyped = read(send(bob, "/members", action="leave", password="wrong password"))
    assert (mistyped.input("days")["value"], mistyped.input("note")["value"]) == ("7", "")
    left = send(alice, "/members", action="leave", password=PASSWORD)
    assert left.headers["location"] == "/login?signed_out=1"
    assert sessions.COOKIE_NAME not in alice.cookies
    assert _members(sqlite_database)["alice@example.org"] == ("member", True)


def test_fields_say_what_is_wrong_when_an_invite_is_refused(alice: TestClient) -> None:
    for name, value in (("days", "0"), ("days", "many"), ("days", "٣"), ("note", "x" * 101)):
        response = send(
            alice, "/members", **({"action": "invite", "role": "member", "days": "7", "note": ""} | {name: value})
        )
        assert response.status_code == 422
        assert read(response).input(name)["aria-invalid"] == "true"
    alone = read(alice.get("/members"))
    assert "only owner" in alone.text
    assert "I want to leave" not in alone.text


def test_page_says_why_when_the_tenant_is_suspended(
    alice: TestClient, new_client: NewClient, sqlite_database: Database
) -> None:
    def suspend(state: TenantState) -> None:
        with sqlite_database.transaction() as session:
            tenant_id = session.scalars(select(Tenant.id)).one()
            suspension.suspend(session, tenant_id, state=state, reason="Unpaid <i>bill</i>.", actor="admin")

    suspend(TenantState.NO_NEW_JOBS)
    assert "Unpaid <i>bill</i>." in read(alice.get("/account")).text
    assert sign_in(new_client()).status_code == 303
    suspend(TenantState.SUSPENDED)
    assert alice.get("/account", follow_redirects=False).status_code == 303
    stranger = new_client()
    refused = sign_in(stranger)
    assert refused.status_code == 403
    assert "Unpaid <i>bill</i>." in read(refused).text
    assert "Unpaid" not in sign_in(stranger, password="wrong password").text
