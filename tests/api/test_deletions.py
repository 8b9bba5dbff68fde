"""GET /v1/deletions, fresh re-runs and expiry dates, as alice, bob and charlie see them."""

from __future__ import annotations

import json

from tests.api.conftest import Persona, Portal, assert_problem, pdf, usage_of


def _submit(who: Persona, document: bytes, **options: object) -> dict[str, object]:
    reply = who.client.post(
        "/v1/jobs?wait=20", files={"files": ("a.pdf", document)}, data={"options": json.dumps(options)}
    )
    assert reply.status_code in (200, 202), reply.text
    body: dict[str, object] = reply.json()
    return body


def test_a_rerun_is_answered_at_once_and_a_fresh_one_is_read(
    live: Portal, alice: Persona, bob: Persona, charlie: Persona
) -> None:
    document = pdf(2)
    first = _submit(alice, document)
    reply = bob.client.post("/v1/jobs", files={"files": ("b.pdf", document)})
    assert (reply.status_code, reply.json()["state"], reply.json()["pages_charged"]) == (200, "succeeded", 0)
    assert [page["is_reused"] for page in reply.json()["pages"]] == [True, True]
    assert bob.client.get(reply.json()["pages"][1]["image"]).headers["Content-Type"] == "image/jpeg"
    text = bob.client.get(f"/v1/jobs/{reply.json()['id']}/result").text
    assert text == alice.client.get(f"/v1/jobs/{first['id']}/result").text
    for other in (_submit(bob, document, fresh=True), _submit(charlie, document)):
        assert other["pages_charged"] == 2
        assert usage_of(live, str(other["id"])) == [("read", 1)] * 2
    wrong = bob.client.post("/v1/jobs", files={"files": ("b.pdf", document)}, data={"options": '{"fresh": "yes"}'})
    assert_problem(wrong, 422, "invalid_request")


def test_deletions_are_listed_to_their_tenant_only(alice: Persona, bob: Persona, charlie: Persona) -> None:
    jobs = [_submit(alice, pdf(1), fresh=True) for _ in range(2)]
    assert all(job["expires_at"] for job in jobs)
    for job in jobs:
        assert bob.client.delete(f"/v1/jobs/{job['id']}").status_code == 204
    first = alice.client.get("/v1/deletions?limit=1").json()
    assert first["has_more"]
    assert (first["data"][0]["target"], first["data"][0]["reason"]) == (jobs[1]["id"], "asked")
    rest = alice.client.get(f"/v1/deletions?before={first['next_before']}").json()
    assert rest["data"][0]["target"] == jobs[0]["id"]
    assert rest["data"][0]["gone"]["documents"] == 1
    assert charlie.client.get("/v1/deletions").json()["data"] == []
    assert_problem(charlie.client.get(f"/v1/deletions?before={first['next_before']}"), 404, "not_found")
    assert_problem(alice.client.get("/v1/deletions?before=%00"), 404, "not_found")
