"""/v1/admin: for an admin's own key alone; each change checked in the reply, in its row and in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from models import AuditEntry, LimitChange, Member, QuotaRequest, Tenant
from models.base import now
from portal.domain import Scope
from portal.usage import plans
from portal.usage.limits import terms_of
from tests.api.conftest import Persona, Portal, admin_of, assert_problem, png

ROUTES = (
    ("GET", "/tenants"),
    ("POST", "/tenants"),
    ("GET", "/tenants/{tenant}"),
    ("PUT", "/tenants/{tenant}/state"),
    ("POST", "/tenants/{tenant}/delete"),
    ("PUT", "/tenants/{tenant}/quota"),
    ("POST", "/tenants/{tenant}/quota/chg_1/undo"),
    ("GET", "/registration"),
    ("PUT", "/registration"),
    ("GET", "/plans"),
    ("POST", "/plans"),
    ("PATCH", "/plans/standard"),
    ("GET", "/quota-requests"),
    ("POST", "/quota-requests/ask_1/grant"),
    ("POST", "/quota-requests/ask_1/decline"),
    ("POST", "/dry-run"),
    ("GET", "/audit"),
    ("GET", "/audit.csv"),
    ("GET", "/fleet"),
    ("POST", "/fleet/drain"),
    ("POST", "/fleet/restart"),
)


@pytest.fixture
def admin(live: Portal, people: Callable[..., Persona]) -> Persona:
    plans.ensure_default(live.services.database)
    return people(admin_of(live), scopes=tuple(Scope))


def _entries(live: Portal, **named: str) -> list[AuditEntry]:
    with live.services.database.reading() as session:
        return list(session.scalars(select(AuditEntry).filter_by(**named).order_by(AuditEntry.at)))


def _quota(who: Persona, tenant_id: str, **order: Any) -> httpx.Response:
    return who.client.put(f"/v1/admin/tenants/{tenant_id}/quota", json=order)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_route_is_refused_when_the_caller_is_no_admin(
    live: Portal,
    admin: Persona,
    alice: Persona,
    bob: Persona,
    charlie: Persona,
    people: Callable[..., Persona],
    method: str,
    path: str,
) -> None:
    url = "/v1/admin" + path.format(tenant=alice.principal.tenant_id)
    for who in (alice, bob, charlie, people(admin.principal)):
        assert_problem(who.client.request(method, url, json={}), 403, "scope_lacking")
    assert_problem(httpx.request(method, live.url + url), 401, "unauthenticated")
    with live.services.database.transaction() as session:
        session.get_one(Member, admin.principal.member_id).is_admin = False
    reply = admin.client.request(method, url, json={})
    assert reply.status_code == 403
    assert reply.json()["code"] in ("admin_only", "scope_lacking")


def test_text_with_a_nul_is_refused_wherever_it_comes_in(admin: Persona, alice: Persona) -> None:
    quota, nul = f"/v1/admin/tenants/{alice.principal.tenant_id}/quota", "a\0b"
    for method, path, order in (
        ("PATCH", "/v1/admin/plans/a%00b", {"limits": {}}),
        ("PUT", quota, {"plan": nul}),
        ("PUT", quota, {"limits": {"pages_per_day": 5}, "reason": nul}),
        ("POST", "/v1/admin/dry-run", {"limits": {}, "tenant_id": nul}),
    ):
        assert_problem(admin.client.request(method, path, json=order), 422, "invalid_request")


def test_limit_binds_at_once_and_not_any_more_when_undone(live: Portal, admin: Persona, alice: Persona) -> None:
    tenant_id = alice.principal.tenant_id
    seen = _quota(admin, tenant_id, limits={"pages_per_day": 0}, dry_run=True).json()
    assert seen["change_id"] is None
    assert "new work is refused until the limit is raised" in seen["effects"][0]["words"]
    assert _entries(live, action="tenant.read", tenant_id=tenant_id)
    reply = _quota(admin, tenant_id, limits={"pages_per_day": 0}, reason="pause", seen=seen["seen"])
    assert (reply.status_code, reply.json()["effects"][0]["old"]) == (200, 5000)
    refused = alice.client.post("/v1/jobs", files={"files": ("a.png", png())})
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exhausted")
    [entry] = _entries(live, action="limits.changed", tenant_id=tenant_id)
    assert (entry.actor, entry.before, entry.after) == (
        admin.principal.email,
        {"pages_per_day": 5000},
        {"pages_per_day": 0},
    )
    assert entry.request_id == reply.headers["X-Request-Id"]
    undone = admin.client.post(f"/v1/admin/tenants/{tenant_id}/quota/{reply.json()['change_id']}/undo")
    assert undone.status_code == 200, undone.text
    with live.services.database.reading() as session:
        assert terms_of(session, tenant_id, at=now()).limits.pages_per_day == 5000
        assert session.scalars(select(LimitChange).where(LimitChange.tenant_id == tenant_id)).one().undone_at
    assert_problem(_quota(admin, tenant_id, limits={"pages_per_day": 1.5}), 422, "limit_invalid")
    assert_problem(_quota(admin, tenant_id, limits={"pages": 1}), 422, "invalid_request")
    stale = _quota(admin, tenant_id, limits={"pages_per_day": 3}, seen="0" * 24)
    assert_problem(stale, 409, "limits_changed")


def test_tenant_is_made_suspended_resumed_and_deleted(live: Portal, admin: Persona, alice: Persona) -> None:
    order = {"name": f"n{admin.principal.tenant_id[-8:]}", "email": f"o{admin.principal.tenant_id}@x.example"}
    made = admin.client.post("/v1/admin/tenants", json=order)
    assert (made.status_code, made.headers["Cache-Control"]) == (201, "no-store")
    tenant_id, password = made.json()["tenant"]["id"], made.json()["one_time_password"]
    assert_problem(admin.client.post("/v1/admin/tenants", json=order), 409, "tenant_name_taken")
    state = f"/v1/admin/tenants/{tenant_id}/state"
    assert_problem(admin.client.put(state, json={"state": "suspended"}), 422, "reason_invalid")
    suspended = admin.client.put(state, json={"state": "suspended", "reason": "unpaid"}).json()
    assert (suspended["state"], suspended["state_reason"]) == ("suspended", "unpaid")
    assert admin.client.put(state, json={"state": "active"}).json()["state"] == "active"
    url = f"/v1/admin/tenants/{tenant_id}/delete"
    assert_problem(admin.client.post(url, json={"name": "other"}), 422, "name_not_typed")
    assert admin.client.post(url, json={"name": order["name"]}).json()["gone"]["members"] == 1
    assert_problem(admin.client.get(f"/v1/admin/tenants/{tenant_id}"), 404, "tenant_unknown")
    actions = [entry.action for entry in _entries(live, tenant_id=tenant_id)]
    expected = ["tenant.created", "tenant.suspended", "tenant.resumed", "tenant.deletion_began", "tenant.deleted"]
    assert actions == expected
    with live.services.database.reading() as session:
        assert session.get(Tenant, tenant_id) is None
        kept = [str((entry.details, entry.before, entry.after)) for entry in session.scalars(select(AuditEntry))]
    assert not any(password in text or "argon2" in text for text in kept)
    assert alice.client.get("/v1/me").status_code == 200


def test_request_for_more_is_granted_once_and_declined_with_words(live: Portal, admin: Persona, alice: Persona) -> None:
    tenant_id = alice.principal.tenant_id
    ids = ["ask_" + admin.principal.tenant_id[-10:] + end for end in "ab"]
    with live.services.database.transaction() as session:
        for request_id, wanted in zip(ids, (9000, 10**6), strict=True):
            session.add(
                QuotaRequest(
                    id=request_id, tenant_id=tenant_id, limit_name="pages_per_day", wanted=wanted, reason="archive"
                )
            )
    listed = admin.client.get("/v1/admin/quota-requests?open=true").json()["data"]
    assert set(ids) <= {ask["id"] for ask in listed}
    assert _entries(live, action="quota_requests.read", actor=str(admin.principal.email))
    until = (now() + timedelta(days=1)).isoformat()
    granted = admin.client.post(f"/v1/admin/quota-requests/{ids[0]}/grant", json={"until": until}).json()
    assert (granted["state"], granted["present"]) == ("granted", 9000)
    assert_problem(admin.client.post(f"/v1/admin/quota-requests/{ids[0]}/grant", json={}), 409, "quota_request_decided")
    decline = f"/v1/admin/quota-requests/{ids[1]}/decline"
    assert_problem(admin.client.post(decline, json={"answer": " "}), 422, "answer_invalid")
    assert admin.client.post(decline, json={"answer": "too much"}).json()["answer"] == "too much"
    with live.services.database.reading() as session:
        assert terms_of(session, tenant_id, at=now()).limits.pages_per_day == 9000


def test_dry_run_names_whom_it_would_refuse_and_changes_nothing(live: Portal, admin: Persona, alice: Persona) -> None:
    alice.client.post("/v1/jobs?wait=20", files={"files": ("a.png", png())})
    order = {"limits": {"pages_per_day": 0}, "tenant_id": alice.principal.tenant_id}
    [verdict] = admin.client.post("/v1/admin/dry-run", json=order).json()["data"]
    assert (verdict["refused_pages"], verdict["refused"][0]["limit"]) == (1, "pages_per_day")
    assert alice.client.post("/v1/jobs?wait=20", files={"files": ("a.png", png())}).status_code == 200


def test_audit_log_is_filtered_paged_and_its_reading_is_in_it(live: Portal, admin: Persona, alice: Persona) -> None:
    tenant_id = alice.principal.tenant_id
    for pages in (1, 2, 3):
        _quota(admin, tenant_id, limits={"pages_per_day": pages}, reason="=HYPERLINK(1)")
    asked = {"tenant": alice.principal.tenant_name, "action": "limits.", "limit": "2"}
    first = admin.client.get("/v1/admin/audit", params=asked).json()
    assert [entry["after"]["pages_per_day"] for entry in first["data"]] == [3, 2]
    assert first["has_more"]
    rest = admin.client.get("/v1/admin/audit", params=asked | {"before": first["data"][-1]["id"]}).json()
    assert ([entry["after"]["pages_per_day"] for entry in rest["data"]], rest["has_more"]) == ([1], False)
    by_request = {"request_id": first["data"][0]["request_id"]}
    assert len(admin.client.get("/v1/admin/audit", params=by_request).json()["data"]) == 1
    assert admin.client.get("/v1/admin/audit", params=asked | {"result": "refused"}).json()["data"] == []
    own = _entries(live, action="audit.read", actor=str(admin.principal.email))
    assert [entry.details["filters"]["action"] for entry in own if "action" in entry.details["filters"]] == [
        "limits."
    ] * 2
    saved = admin.client.get("/v1/admin/audit.csv", params={"tenant": tenant_id, "action": "limits.changed"})
    assert saved.headers["Content-Disposition"].startswith("attachment")
    assert len(saved.text.splitlines()) == 4
    assert _entries(live, action="audit.exported", actor=str(admin.principal.email))
    assert_problem(admin.client.get("/v1/admin/audit?result=maybe"), 422, "invalid_request")
    assert_problem(admin.client.get("/v1/admin/audit?since=2026-11-30T00:00:00"), 422, "invalid_request")


_BEYOND = "9999-12-31T23:59:59-14:00"
_BEFORE = "0001-01-01T00:00:00+14:00"


def test_moment_that_is_beyond_the_calendar_in_utc_is_taken_for_its_edge(admin: Persona, alice: Persona) -> None:
    for bounds in ({"until": _BEYOND}, {"since": _BEFORE}, {"since": _BEFORE, "until": _BEYOND}):
        assert admin.client.get("/v1/admin/audit", params=bounds).json()["data"] != []
        assert len(admin.client.get("/v1/admin/audit.csv", params=bounds).text.splitlines()) > 1
    assert admin.client.get("/v1/admin/audit", params={"until": _BEFORE}).json()["data"] == []
    path = f"/v1/admin/tenants/{alice.principal.tenant_id}/quota"
    made = admin.client.put(path, json={"limits": {"pages_per_day": 7}, "until": _BEYOND, "reason": "for good"})
    assert made.status_code == 200, made.text
    assert alice.client.get("/v1/usage").json()["limits"] != []
    undone = admin.client.post(f"{path}/{made.json()['change_id']}/undo")
    assert undone.status_code == 200, undone.text
    key = alice.client.post("/v1/keys", json={"name": "lasting", "scopes": ["read"], "expires_at": _BEYOND})
    assert (key.status_code, key.json()["expires_at"][:4]) == (201, "9999")


@pytest.mark.parametrize("days", [36_501, 2**31 - 1])
def test_retention_beyond_a_hundred_years_is_refused(admin: Persona, alice: Persona, days: int) -> None:
    path = f"/v1/admin/tenants/{alice.principal.tenant_id}/quota"
    assert_problem(admin.client.put(path, json={"limits": {"retention_days": days}}), 422, "limit_invalid")
    assert admin.client.put(path, json={"limits": {"retention_days": 36_500}}).status_code == 200
    job = alice.client.post("/v1/jobs?wait=20", files=[("files", ("a.png", png()))]).json()
    assert job["expires_at"][:2] == "21"
