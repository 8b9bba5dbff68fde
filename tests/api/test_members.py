"""/v1/members and /v1/invites: an owner's key with the scope `members` changes who is in the tenant, no other does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from models import Invite, Member
from portal.accounts import suspension
from portal.accounts.joining import Newcomer, join
from portal.domain import Scope, TenantState
from tests.api.conftest import Persona, Portal, assert_problem, png

EVERYTHING = (Scope.OCR, Scope.READ, Scope.MEMBERS)


@pytest.fixture
def owner(alice: Persona, people: Callable[..., Persona]) -> Persona:
    """Alice with a key that may manage members."""
    return people(alice.principal, scopes=EVERYTHING)


def _member(live: Portal, who: Persona) -> Member:
    with live.services.database.reading() as session:
        return session.get_one(Member, who.principal.member_id)


def test_members_are_listed_for_their_tenant_alone(alice: Persona, bob: Persona, charlie: Persona) -> None:
    for who in (alice, bob):
        listed = who.client.get("/v1/members").json()["data"]
        assert [(each["id"], each["role"]) for each in listed] == [
            (alice.principal.member_id, "owner"),
            (bob.principal.member_id, "member"),
        ]
        assert listed[1]["keys"] == 1
    assert [each["id"] for each in charlie.client.get("/v1/members").json()["data"]] == [charlie.principal.member_id]


def test_removed_members_key_opens_nothing(live: Portal, owner: Persona, bob: Persona) -> None:
    path = f"/v1/members/{bob.principal.member_id}"
    assert owner.client.delete(path).status_code == 204
    assert _member(live, bob).removed_at is not None
    assert_problem(bob.client.get("/v1/me"), 401, "api_key_revoked")
    assert_problem(bob.client.post("/v1/jobs", files={"files": ("a.png", png())}), 401, "api_key_revoked")
    assert_problem(owner.client.delete(path), 404, "member_unknown")
    assert_problem(owner.client.delete(f"/v1/members/{owner.principal.member_id}"), 409, "last_owner")


def test_role_is_changed_and_the_key_loses_its_power_with_it(live: Portal, owner: Persona, bob: Persona) -> None:
    path = f"/v1/members/{bob.principal.member_id}"
    assert owner.client.patch(path, json={"role": "owner"}).json()["role"] == "owner"
    assert _member(live, bob).role == "owner"
    assert_problem(owner.client.patch(path, json={"role": "king"}), 422, "invalid_request")
    own = f"/v1/members/{owner.principal.member_id}"
    assert owner.client.patch(own, json={"role": "member"}).json()["role"] == "member"
    assert_problem(owner.client.patch(path, json={"role": "member"}), 403, "members_not_allowed")
    for method in ("GET", "POST"):
        assert_problem(owner.client.request(method, "/v1/invites", json={}), 403, "members_not_allowed")


def test_nobody_else_changes_members(
    live: Portal, alice: Persona, bob: Persona, charlie: Persona, people: Callable[..., Persona]
) -> None:
    stranger = people(charlie.principal, scopes=EVERYTHING)
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("DELETE", f"/v1/members/{bob.principal.member_id}", {}),
        ("PATCH", f"/v1/members/{bob.principal.member_id}", {"json": {"role": "owner"}}),
    ]
    for method, path, body in calls:
        assert_problem(alice.client.request(method, path, **body), 403, "scope_lacking")
        assert_problem(bob.client.request(method, path, **body), 403, "scope_lacking")
        assert_problem(stranger.client.request(method, path, **body), 404, "member_unknown")
    assert (_member(live, bob).removed_at, _member(live, bob).role) == (None, "member")


def test_invite_is_made_once_in_clear_listed_without_and_revoked(
    live: Portal, owner: Persona, bob: Persona, charlie: Persona, people: Callable[..., Persona]
) -> None:
    reply = owner.client.post("/v1/invites", json={"role": "owner", "days": 2, "note": "Dora"})
    made = reply.json()
    assert (reply.status_code, reply.headers["Cache-Control"]) == (201, "no-store")
    token = made["link"].removeprefix(f"{live.url}/invite#")
    listed = owner.client.get("/v1/invites")
    assert [(each["id"], each["note"], each["role"]) for each in listed.json()["data"]] == [
        (made["id"], "Dora", "owner")
    ]
    assert token not in listed.text
    for who, code in ((bob, "scope_lacking"), (people(bob.principal, scopes=(Scope.READ,)), "scope_lacking")):
        assert_problem(who.client.get("/v1/invites"), 403, code)
    stranger = people(charlie.principal, scopes=EVERYTHING)
    assert stranger.client.get("/v1/invites").json()["data"] == []
    assert_problem(stranger.client.delete(f"/v1/invites/{made['id']}"), 404, "invite_unknown")
    dora = join(
        live.services.database, token, Newcomer("dora-by-rest@example.org", "seven green kettles"), time_zone="UTC"
    )
    assert dora.tenant_id == owner.principal.tenant_id
    assert_problem(owner.client.delete(f"/v1/invites/{made['id']}"), 404, "invite_unknown")
    second = owner.client.post("/v1/invites", json={}).json()
    assert owner.client.delete(f"/v1/invites/{second['id']}").json()["id"] == second["id"]
    with live.services.database.reading() as session:
        assert session.get_one(Invite, second["id"]).revoked_at is not None


@pytest.mark.parametrize("order", [{"days": 0}, {"days": 91}, {"role": "admin"}, {"note": "x" * 101}, {"to": "x"}])
def test_invite_is_refused_when_its_order_is_wrong(owner: Persona, order: dict[str, Any]) -> None:
    assert_problem(owner.client.post("/v1/invites", json=order), 422, "invalid_request")
    assert owner.client.get("/v1/invites").json()["data"] == []


def test_keys_of_a_suspended_tenant_are_told_why(live: Portal, alice: Persona, charlie: Persona) -> None:
    with live.services.database.transaction() as session:
        suspension.suspend(
            session, alice.principal.tenant_id, state=TenantState.SUSPENDED, reason="Unpaid.", actor="test"
        )
    calls: list[httpx.Response] = [
        alice.client.get("/v1/me"),
        alice.client.get("/v1/jobs"),
        alice.client.post("/v1/jobs", files={"files": ("a.png", png())}),
    ]
    for reply in calls:
        assert "Unpaid." in assert_problem(reply, 403, "tenant_suspended")["detail"]
    assert charlie.client.get("/v1/me").status_code == 200
    with live.services.database.transaction() as session:
        suspension.suspend(
            session, alice.principal.tenant_id, state=TenantState.NO_NEW_JOBS, reason="Moving.", actor="test"
        )
    assert alice.client.get("/v1/jobs").json()["data"] == []
    refused = alice.client.post("/v1/jobs", files={"files": ("a.png", png())})
    assert "Moving." in assert_problem(refused, 403, "tenant_suspended")["detail"]
    assert alice.client.get("/v1/jobs").json()["data"] == []
