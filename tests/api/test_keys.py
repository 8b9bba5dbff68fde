"""/v1/me and /v1/keys: a key tells who it is, and gives no more than it has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from models import ApiKey
from portal.domain import Scope
from tests.api.conftest import Persona, Portal, assert_problem


def _stored(live: Portal, key_id: str) -> ApiKey:
    with live.services.database.reading() as session:
        return session.get_one(ApiKey, key_id)


def _make(who: Persona, **order: Any) -> httpx.Response:
    return who.client.post("/v1/keys", json={"name": "nightly import", **order})


def _own_id(who: Persona) -> str:
    return str(who.client.get("/v1/me").json()["key"]["id"])


def test_key_is_told_who_it_is_and_what_it_may(alice: Persona) -> None:
    body = alice.client.get("/v1/me").json()
    principal = alice.principal
    assert body["tenant"] == {
        "id": principal.tenant_id,
        "name": principal.tenant_name,
        "plan": "standard",
        "time_zone": "UTC",
        "state": "active",
        "state_reason": None,
    }
    assert body["member"] == {"id": principal.member_id, "email": principal.email, "role": "owner"}
    assert body["scopes"] == ["ocr", "read"]
    assert alice.key.startswith(body["key"]["prefix"])
    assert body["limits"]["max_file_bytes"] == 2**20
    assert body["limits"]["max_job_files"] == 4


def test_new_key_works_and_is_stored_without_its_secret(live: Portal, alice: Persona) -> None:
    reply = _make(alice, scopes=["read"])
    body = reply.json()
    assert (reply.status_code, reply.headers["Cache-Control"]) == (201, "no-store")
    headers = {"Authorization": f"Bearer {body['key']}"}
    assert httpx.get(f"{live.url}/v1/me", headers=headers).json()["scopes"] == ["read"]
    row = _stored(live, body["id"])
    assert (row.tenant_id, row.name, row.scopes) == (alice.principal.tenant_id, "nightly import", "read")
    assert body["key"] not in (row.key_hash, row.prefix)
    listed = alice.client.get("/v1/keys").json()["data"]
    assert body["id"] in [key["id"] for key in listed]
    assert body["key"] not in alice.client.get("/v1/keys").text


def test_keys_are_listed_for_their_tenant_alone(alice: Persona, bob: Persona, charlie: Persona) -> None:
    own = {_own_id(alice), _own_id(bob)}
    for who in (alice, bob):
        assert {key["id"] for key in who.client.get("/v1/keys").json()["data"]} == own
    assert [key["id"] for key in charlie.client.get("/v1/keys").json()["data"]] == [_own_id(charlie)]


def test_revoked_key_opens_nothing(live: Portal, alice: Persona) -> None:
    made = _make(alice).json()
    reply = alice.client.delete(f"/v1/keys/{made['id']}")
    assert (reply.status_code, reply.json()["id"]) == (200, made["id"])
    assert reply.json()["revoked_at"] is not None
    assert _stored(live, made["id"]).revoked_at is not None
    refused = httpx.get(f"{live.url}/v1/me", headers={"Authorization": f"Bearer {made['key']}"})
    assert_problem(refused, 401, "api_key_revoked")


def test_key_of_another_tenant_is_404(live: Portal, alice: Persona, charlie: Persona) -> None:
    key_id = _own_id(alice)
    assert_problem(charlie.client.delete(f"/v1/keys/{key_id}"), 404, "api_key_unknown")
    assert _stored(live, key_id).revoked_at is None
    assert alice.client.get("/v1/me").status_code == 200


def test_members_key_manages_no_keys_but_itself(live: Portal, alice: Persona, bob: Persona) -> None:
    assert_problem(_make(bob), 403, "keys_not_allowed")
    assert_problem(bob.client.delete(f"/v1/keys/{_own_id(alice)}"), 403, "keys_not_allowed")
    own = _own_id(bob)
    assert bob.client.delete(f"/v1/keys/{own}").status_code == 200
    assert _stored(live, own).revoked_at is not None
    assert_problem(bob.client.get("/v1/me"), 401, "api_key_revoked")


def test_reading_key_changes_no_keys(alice: Persona, people: Callable[..., Persona]) -> None:
    reader = people(alice.principal, scopes=(Scope.READ,))
    assert_problem(_make(reader, scopes=["read"]), 403, "keys_not_allowed")
    assert_problem(reader.client.delete(f"/v1/keys/{_own_id(alice)}"), 403, "keys_not_allowed")
    assert len(alice.client.get("/v1/keys").json()["data"]) == 2


@pytest.mark.parametrize("scope", ["chat", "prompt", "admin"])
def test_key_gives_no_scope_that_it_lacks(alice: Persona, scope: str) -> None:
    assert_problem(_make(alice, scopes=["read", scope]), 403, "scope_not_allowed")
    assert len(alice.client.get("/v1/keys").json()["data"]) == 1


def test_key_gives_no_longer_life_than_its_own(alice: Persona, people: Callable[..., Persona]) -> None:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    short = people(alice.principal, expires_at=ends)
    assert datetime.fromisoformat(_make(short).json()["expires_at"]) == ends
    sooner = ends - timedelta(days=1)
    assert datetime.fromisoformat(_make(short, expires_at=sooner.isoformat()).json()["expires_at"]) == sooner
    later = (ends + timedelta(seconds=1)).isoformat()
    assert_problem(_make(short, expires_at=later), 403, "expiry_not_allowed")


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ({"name": " "}, "api_key_name"),
        ({"scopes": []}, "scope_missing"),
        ({"scopes": ["all"]}, "invalid_request"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expiry_invalid"),
        ({"expires_at": "2090-01-01T00:00:00"}, "expiry_invalid"),
        ({"expires_at": "soon"}, "invalid_request"),
        ({"expiry": "2090-01-01T00:00:00Z"}, "invalid_request"),
        ({"name": "x" * 101}, "invalid_request"),
    ],
)
def test_order_is_refused_when_it_is_wrong(alice: Persona, order: dict[str, Any], code: str) -> None:
    assert_problem(_make(alice, **order), 422, code)
    assert len(alice.client.get("/v1/keys").json()["data"]) == 1


def _rotate(who: Persona, key_id: str, **order: Any) -> httpx.Response:
    return who.client.post(f"/v1/keys/{key_id}/rotate", json=order)


def _may_enter(live: Portal, key: str) -> bool:
    return httpx.get(f"{live.url}/v1/me", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_both_keys_open_the_door_when_one_is_rotated(live: Portal, alice: Persona) -> None:
    made = _make(alice, scopes=["read"]).json()
    reply = _rotate(alice, made["id"], overlap="1h")
    new = reply.json()
    assert (reply.status_code, reply.headers["Cache-Control"]) == (201, "no-store")
    assert (new["name"], new["scopes"], new["expires_at"]) == ("nightly import", ["read"], None)
    assert (_may_enter(live, made["key"]), _may_enter(live, new["key"])) == (True, True)
    old = _stored(live, made["id"])
    assert old.replaced_by == new["id"]
    assert old.expires_at is not None
    assert timedelta(minutes=59) < old.expires_at - datetime.now(UTC) <= timedelta(hours=1)
    listed = {key["id"]: key["replaced_by"] for key in alice.client.get("/v1/keys").json()["data"]}
    assert (listed[made["id"]], listed[new["id"]]) == (new["id"], None)
    assert_problem(_rotate(alice, made["id"]), 409, "api_key_replaced")
    assert _rotate(alice, new["id"], overlap="none").status_code == 201
    assert not _may_enter(live, new["key"])
    assert_problem(_rotate(alice, new["id"]), 409, "api_key_ended")


def test_key_is_not_rotated_by_who_may_not_make_one(
    live: Portal, alice: Persona, bob: Persona, charlie: Persona
) -> None:
    own = _own_id(alice)
    assert_problem(_rotate(bob, own), 403, "keys_not_allowed")
    assert_problem(_rotate(bob, _own_id(bob)), 403, "keys_not_allowed")
    assert_problem(_rotate(charlie, own), 404, "api_key_unknown")
    assert_problem(_rotate(alice, own, overlap="forever"), 422, "invalid_request")
    stored = _stored(live, own)
    assert (stored.replaced_by, stored.revoked_at, stored.expires_at) == (None, None, None)


def test_key_does_not_lengthen_its_own_life_when_it_rotates_itself(
    live: Portal, alice: Persona, people: Callable[..., Persona]
) -> None:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    short = people(alice.principal, expires_at=ends)
    new = _rotate(short, _own_id(short), overlap="7d").json()
    assert datetime.fromisoformat(new["expires_at"]) <= ends
    assert _stored(live, _own_id(short)).expires_at == ends
