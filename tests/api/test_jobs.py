"""/v1/jobs: what is handed in is stored, read, shown to its tenant alone, and ended on request."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from portal.api import jobs
from portal.domain import Scope
from portal.engine.fakes import answers, blank, fails
from portal.errors import Unavailable
from portal.jobs import endings, history, queries
from tests.api.conftest import (
    Persona,
    Portal,
    assert_problem,
    incoming_files,
    pdf,
    png,
    stored_job,
    stored_pages,
    usage_of,
    wait_until,
)


def _submit(who: Persona, *, wait: float = 20, **form: str) -> dict[str, object]:
    reply = who.client.post(f"/v1/jobs?wait={wait}", files=[("files", ("scan.pdf", pdf(2)))], data=form)
    assert reply.status_code in (200, 202), reply.text
    body: dict[str, object] = reply.json()
    return body


def _hold(live: Portal, who: Persona) -> str:
    """A job whose first page is being read until the engine is let go."""
    live.engine.is_held = True
    job_id = str(_submit(who, wait=0)["id"])
    wait_until(lambda: bool(live.engine.order))
    return job_id


def test_job_is_read_and_counted_when_the_wait_is_long_enough(live: Portal, alice: Persona) -> None:
    files = [("files", ("scan.png", png())), ("files", ("doc.pdf", pdf(2)))]
    reply = alice.client.post("/v1/jobs?wait=20", files=files)
    body = reply.json()
    assert reply.status_code == 200
    assert reply.headers["Location"] == body["links"]["self"] == f"/v1/jobs/{body['id']}"
    assert (body["state"], body["task"], body["engine"]) == ("succeeded", "extract", "fake")
    assert (body["page_count"], body["pages_done"], body["pages_failed"]) == (3, 3, 0)
    assert [document["file_name"] for document in body["documents"]] == ["scan.png", "doc.pdf"]
    assert [(page["position"], page["number"], page["state"]) for page in body["pages"]] == [
        (1, 1, "succeeded"),
        (2, 1, "succeeded"),
        (3, 2, "succeeded"),
    ]
    row = stored_job(live, body["id"])
    assert row is not None
    assert (row.tenant_id, row.member_id) == (alice.principal.tenant_id, alice.principal.member_id)
    assert row.api_key_id is not None
    assert [page.state for page in stored_pages(live, body["id"])] == ["succeeded"] * 3
    assert usage_of(live, body["id"]) == [("read", 1)] * 3


def test_job_is_accepted_with_its_place_in_the_queue_when_nothing_is_waited_for(live: Portal, alice: Persona) -> None:
    live.engine.is_held = True
    reply = alice.client.post("/v1/jobs", files=[("files", ("scan.png", png()))])
    body = reply.json()
    assert reply.status_code == 202
    assert body["state"] in ("queued", "running")
    assert body["queue"].keys() == {"position", "pages_ahead", "eta_seconds", "binding", "detail"}
    assert body["queue"]["eta_seconds"] >= 0
    live.engine.is_held = False
    later = alice.client.get(f"{body['links']['self']}?wait=20").json()
    assert (later["state"], later["queue"]) == ("succeeded", None)


def test_job_is_shown_as_it_is_when_the_wait_elapses(live: Portal, alice: Persona) -> None:
    job_id = _hold(live, alice)
    reply = alice.client.get(f"/v1/jobs/{job_id}?wait=0.2")
    assert (reply.status_code, reply.json()["state"]) == (200, "running")


def test_only_chosen_pages_are_read_when_options_name_them(live: Portal, alice: Persona) -> None:
    files = [("files", ("doc.pdf", pdf(5)))]
    data = {"task": "extract", "options": '{"pages": "2-3, 5", "engine": "fake-checkpoint"}'}
    body = alice.client.post("/v1/jobs?wait=20", files=files, data=data).json()
    assert [page["number"] for page in body["pages"]] == [2, 3, 5]
    assert [page.number for page in stored_pages(live, body["id"])] == [2, 3, 5]


def test_parts_may_come_before_and_after_the_files(alice: Persona) -> None:
    boundary = "b"
    parts = [
        'Content-Disposition: form-data; name="task"\r\n\r\nextract',
        'Content-Disposition: form-data; name="files"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n',
        'Content-Disposition: form-data; name="options"\r\n\r\n{"pages": "1"}',
    ]
    middle = parts[1].encode() + png()
    chunks = [parts[0].encode(), middle, parts[2].encode()]
    body = b"".join(b"--b\r\n" + chunk + b"\r\n" for chunk in chunks) + b"--b--\r\n"
    reply = alice.client.post(
        "/v1/jobs?wait=20", content=body, headers={"Content-Type": f"multipart/form-data; boundary={boundary}"}
    )
    assert reply.json()["state"] == "succeeded"


@pytest.mark.parametrize("person", ["alice", "bob"])
def test_members_of_the_tenant_see_the_job(
    person: str, live: Portal, alice: Persona, request: pytest.FixtureRequest
) -> None:
    job_id = _submit(alice)["id"]
    who: Persona = request.getfixturevalue(person)
    assert who.client.get(f"/v1/jobs/{job_id}").json()["id"] == job_id
    assert job_id in [job["id"] for job in who.client.get("/v1/jobs").json()["data"]]
    result = who.client.get(f"/v1/jobs/{job_id}/result")
    assert (result.status_code, result.text.count("Total 9.00")) == (200, 2)
    image = who.client.get(f"/v1/jobs/{job_id}/pages/1/image")
    assert (image.status_code, image.headers["Content-Type"]) == (200, "image/jpeg")
    assert image.content.startswith(b"\xff\xd8")


def test_everything_of_the_job_is_404_when_a_stranger_asks(live: Portal, alice: Persona, charlie: Persona) -> None:
    job_id = _submit(alice)["id"]
    own = f"/v1/jobs/{job_id}"
    for method, path in (
        ("GET", own),
        ("GET", f"{own}?wait=1"),
        ("GET", f"{own}/result?format=json"),
        ("GET", f"{own}/pages/1/image"),
        ("GET", f"/v1/jobs?before={job_id}"),
        ("POST", f"{own}/cancel"),
        ("POST", f"{own}/retry"),
        ("DELETE", own),
    ):
        assert_problem(charlie.client.request(method, path), 404, "not_found")
    assert charlie.client.get("/v1/jobs").json()["data"] == []
    row = stored_job(live, str(job_id))
    assert row is not None
    assert row.state == "succeeded"
    assert len(usage_of(live, str(job_id))) == 2


def test_jobs_are_listed_newest_first_in_stretches(alice: Persona) -> None:
    ids = [_submit(alice)["id"] for _ in range(3)][::-1]
    first = alice.client.get("/v1/jobs?limit=2").json()
    assert [job["id"] for job in first["data"]] == ids[:2]
    assert first["has_more"]
    assert "pages" not in first["data"][0]
    last = alice.client.get(f"/v1/jobs?limit=2&before={first['next_before']}").json()
    assert [job["id"] for job in last["data"]] == ids[2:]
    assert (last["has_more"], last["next_before"]) == (False, None)
    assert [job["id"] for job in alice.client.get(f"/v1/jobs?before={ids[1]}").json()["data"]] == ids[2:]


def test_list_goes_on_when_the_job_it_stopped_at_was_deleted(alice: Persona, charlie: Persona) -> None:
    ids = [_submit(alice)["id"] for _ in range(3)][::-1]
    place = alice.client.get("/v1/jobs?limit=2").json()["next_before"]
    assert alice.client.delete(f"/v1/jobs/{ids[1]}").status_code == 204
    rest = alice.client.get(f"/v1/jobs?before={place}").json()
    assert [job["id"] for job in rest["data"]] == ids[2:]
    assert charlie.client.get(f"/v1/jobs?before={place}").json()["data"] == []


@pytest.mark.parametrize("place", ["1-", "-", "x-job_1", "99999999999999999-job_1"])
def test_list_is_refused_when_its_place_is_none(alice: Persona, place: str) -> None:
    assert_problem(alice.client.get(f"/v1/jobs?before={place}"), 422, "invalid_request")


def test_job_is_answered_when_the_database_goes_away_while_it_waits(
    live: Portal, alice: Persona, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise Unavailable("The database does not answer.")

    live.engine.is_held = True
    monkeypatch.setattr(queries, "wait", fail)
    reply = alice.client.post("/v1/jobs?wait=20", files=[("files", ("scan.png", png()))])
    assert reply.status_code == 202
    assert stored_job(live, reply.json()["id"]) is not None


def test_whole_result_comes_when_it_is_read_in_stretches(alice: Persona, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_BATCH_PAGES", 3)
    reply = alice.client.post("/v1/jobs?wait=20", files=[("files", (f"{n}.pdf", pdf(6))) for n in "ab"])
    content = alice.client.get(f"{reply.json()['links']['self']}/result?format=json").json()
    numbers = [[page["number"] for page in document["pages"]] for document in content["documents"]]
    assert numbers == [list(range(1, 7))] * 2


@pytest.mark.parametrize(
    ("format", "media_type", "suffix"),
    [("txt", "text/plain", ".txt"), ("markdown", "text/markdown", ".md"), ("json", "application/json", ".json")],
)
def test_result_is_a_file_of_the_asked_kind(alice: Persona, format: str, media_type: str, suffix: str) -> None:
    job_id = _submit(alice)["id"]
    reply = alice.client.get(f"/v1/jobs/{job_id}/result?format={format}")
    assert reply.headers["Content-Type"].startswith(media_type)
    assert reply.headers["Content-Disposition"].endswith(f"filename*=UTF-8''scan{suffix}")
    assert (reply.headers["X-Job-State"], reply.headers["X-Content-Type-Options"]) == ("succeeded", "nosniff")
    assert "Total 9.00" in reply.text


def test_result_names_the_gap_when_a_page_failed(live: Portal, alice: Persona) -> None:
    job_id = _hold(live, alice)
    live.engine.script = (fails(is_permanent=True, message="The reader stopped."),)
    live.engine.is_held = False
    body = alice.client.get(f"/v1/jobs/{job_id}?wait=20").json()
    assert (body["state"], body["pages_done"], body["pages_failed"]) == ("partial", 1, 1)
    read, failed = sorted(body["pages"], key=lambda page: page["state"], reverse=True)
    assert (read["error"], failed["error"]["code"], failed["image"]) == (None, "engine_failed", None)
    assert failed["error"]["remedy"]
    result = alice.client.get(f"/v1/jobs/{job_id}/result")
    assert "Total 9.00" in result.text
    assert f"Page {failed['number']} could not be read: The reader stopped." in result.text
    assert result.headers["X-Job-State"] == "partial"
    assert sorted(usage_of(live, job_id)) == [("failed", 0), ("read", 1)]


def test_blank_page_is_a_result_and_not_charged(live: Portal, alice: Persona) -> None:
    live.engine.script = (blank(),)
    body = alice.client.post("/v1/jobs?wait=20", files=[("files", ("scan.png", png()))]).json()
    assert (body["state"], body["pages"][0]["is_blank"]) == ("succeeded", True)
    assert alice.client.get(f"{body['links']['self']}/result").status_code == 200
    assert usage_of(live, body["id"]) == [("blank", 0)]


def test_result_waits_for_the_end_unless_a_part_is_asked_for(live: Portal, alice: Persona) -> None:
    live.engine.script = (answers("first"),)
    job_id = _hold(live, alice)
    result = f"/v1/jobs/{job_id}/result"
    assert_problem(alice.client.get(result), 409, "job_not_finished")
    assert_problem(alice.client.get(f"{result}?partial=true"), 409, "job_not_finished")
    live.engine.is_held = False
    alice.client.get(f"/v1/jobs/{job_id}?wait=20")
    reply = alice.client.get(f"{result}?partial=true")
    assert (reply.status_code, reply.headers["X-Job-State"]) == (200, "succeeded")


def test_result_is_refused_when_no_page_was_read(live: Portal, alice: Persona) -> None:
    live.engine.script = (fails(is_permanent=True),)
    job_id = _submit(alice)["id"]
    body = assert_problem(alice.client.get(f"/v1/jobs/{job_id}/result"), 409, "no_result")
    assert "pages say why" in body["remedy"]


def test_cancelled_job_keeps_no_page_at_work_and_charges_none(live: Portal, alice: Persona, bob: Persona) -> None:
    job_id = _hold(live, alice)
    reply = bob.client.post(f"/v1/jobs/{job_id}/cancel")
    assert (reply.status_code, reply.json()["state"]) == (200, "cancelled")
    assert {page.state for page in stored_pages(live, job_id)} == {"cancelled"}
    assert usage_of(live, job_id) == []
    assert alice.client.post(f"/v1/jobs/{job_id}/cancel").json()["state"] == "cancelled"


def test_finished_job_cannot_be_cancelled(live: Portal, alice: Persona) -> None:
    job_id = _submit(alice)["id"]
    assert_problem(alice.client.post(f"/v1/jobs/{job_id}/cancel"), 409, "conflict")


def test_deleted_job_is_gone_with_its_files_and_its_usage_stays(live: Portal, alice: Persona) -> None:
    body = _submit(alice)
    job_id = str(body["id"])
    document_id = stored_pages(live, job_id)[0].document_id
    source = live.services.jobs.storage.source_path(alice.principal.tenant_id, document_id)
    assert source.is_file()
    reply = alice.client.delete(f"/v1/jobs/{job_id}")
    assert (reply.status_code, reply.content) == (204, b"")
    assert stored_job(live, job_id) is None
    assert not source.exists()
    assert len(usage_of(live, job_id)) == 2
    assert_problem(alice.client.get(f"/v1/jobs/{job_id}"), 404, "not_found")


def test_running_job_cannot_be_deleted(live: Portal, alice: Persona) -> None:
    job_id = _hold(live, alice)
    assert_problem(alice.client.delete(f"/v1/jobs/{job_id}"), 409, "conflict")
    assert stored_job(live, job_id) is not None


def test_key_does_only_what_its_scopes_say(live: Portal, alice: Persona, people: Callable[..., Persona]) -> None:
    reader = people(alice.principal, scopes=(Scope.READ,))
    writer = people(alice.principal, scopes=(Scope.OCR,))
    job_id = _submit(writer)["id"]
    own = f"/v1/jobs/{job_id}"
    assert reader.client.get(own).status_code == 200
    for reply in (
        writer.client.get(own),
        writer.client.get("/v1/jobs"),
        writer.client.get(f"{own}/result"),
        writer.client.get(f"{own}/pages/1/image"),
        writer.client.get("/v1/keys"),
        reader.client.post("/v1/jobs", files=[("files", ("scan.png", png()))]),
        reader.client.post(f"{own}/cancel"),
        reader.client.post(f"{own}/retry"),
        reader.client.delete(own),
        reader.client.post("/v1/ocr", json={}),
    ):
        assert_problem(reply, 403, "scope_lacking")
    assert stored_job(live, str(job_id)) is not None
    assert [job["id"] for job in reader.client.get("/v1/jobs").json()["data"]] == [job_id]


@pytest.mark.parametrize(
    ("form", "named"),
    [
        ({"task": "guess"}, "task"),
        ({"fields": "total"}, "fields"),
        ({"task": "fields", "fields": '["total"'}, "fields"),
        ({"task": "fields", "fields": "[1]"}, "fields.0"),
        ({"options": "{"}, "options"),
        ({"options": "[]"}, "options"),
        ({"options": '{"page": "1"}'}, "options.page"),
        ({"options": '{"pages": 1}'}, "options.pages"),
        ({"options": '{"pages": "3-1"}'}, "options.pages"),
        ({"options": '{"pages": "0"}'}, "options.pages"),
        ({"options": '{"pages": "1-999999"}'}, "options.pages"),
        ({"options": '{"language": "nl"}'}, "options.language"),
        ({"task": "translate", "options": '{"language": "Klingon"}'}, "options.language"),
        ({"options": '{"mode": "guess"}'}, "options.mode"),
        ({"task": "translate", "options": '{"language": "nl", "mode": "text"}'}, "options.mode"),
        ({"priority": "high"}, "priority"),
    ],
)
def test_refusal_names_the_parameter_when_it_is_wrong(
    live: Portal, alice: Persona, form: dict[str, str], named: str
) -> None:
    reply = alice.client.post("/v1/jobs", files=[("files", ("scan.png", png()))], data=form)
    body = assert_problem(reply, 422, "invalid_request")
    assert body["detail"].startswith(f"{named}: ")
    assert alice.client.get("/v1/jobs").json()["data"] == []
    assert incoming_files(live) == []


def test_mode_is_refused_before_anything_is_stored_when_the_engine_has_it_not(live: Portal, alice: Persona) -> None:
    form = {"options": '{"mode": "spotting"}'}
    reply = alice.client.post("/v1/jobs", files=[("files", ("scan.png", png()))], data=form)
    assert "mode 'spotting'" in assert_problem(reply, 422, "task_unavailable")["detail"]
    assert alice.client.get("/v1/jobs").json()["data"] == []
    assert incoming_files(live) == []


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x"])
def test_refusal_names_the_query_parameter_when_it_is_out_of_range(alice: Persona, query: str) -> None:
    body = assert_problem(alice.client.get(f"/v1/jobs?{query}"), 422, "invalid_request")
    assert body["detail"].startswith("limit: ")
    assert "query" in body["remedy"]


def test_upload_leaves_nothing_behind_when_it_is_too_large(live: Portal, alice: Persona) -> None:
    large = b"\x89PNG" + bytes(2**20)
    body = assert_problem(alice.client.post("/v1/jobs", files=[("files", ("big.png", large))]), 413, "file_too_large")
    assert "big.png" in body["detail"]
    assert incoming_files(live) == []
    assert alice.client.get("/v1/jobs").json()["data"] == []


def test_body_is_refused_before_it_is_sent_when_its_length_says_too_much(live: Portal, alice: Persona) -> None:
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.key}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 99999999\r\n\r\n"
    )
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 413 ")
    assert incoming_files(live) == []


def test_body_without_a_length_is_refused_as_soon_as_it_is_too_long(live: Portal, alice: Persona) -> None:
    def endless() -> object:
        yield b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
        for _ in range(64):
            yield bytes(2**16)

    reply = alice.client.post(
        "/v1/jobs", content=endless(), headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert_problem(reply, 413, "file_too_large")
    assert incoming_files(live) == []


def test_upload_leaves_nothing_behind_when_the_client_goes_away(live: Portal, alice: Persona) -> None:
    def cut() -> object:
        yield b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
        yield png()
        raise ConnectionError("gone")

    with pytest.raises((ConnectionError, httpx.TransportError)):
        alice.client.post("/v1/jobs", content=cut(), headers={"Content-Type": "multipart/form-data; boundary=b"})
    wait_until(lambda: incoming_files(live) == [])
    assert alice.client.get("/v1/jobs").json()["data"] == []


def test_file_name_is_cleaned_when_it_is_a_path(alice: Persona) -> None:
    body = alice.client.post("/v1/jobs?wait=20", files=[("files", ("../../etc/scan.png", png()))]).json()
    assert body["documents"][0]["file_name"] == "scan.png"


def _failed(live: Portal, who: Persona) -> str:
    """A job of two pages that both failed."""
    live.engine.script = (fails(is_permanent=True),)
    job_id = str(_submit(who)["id"])
    live.engine.script = (answers("Total 9.00"),)
    live.engine.calls.clear()
    return job_id


@pytest.mark.parametrize("person", ["alice", "bob"])
def test_failed_pages_are_read_and_charged_once_when_retried(
    person: str, live: Portal, alice: Persona, request: pytest.FixtureRequest
) -> None:
    who: Persona = request.getfixturevalue(person)
    job_id = _failed(live, alice)
    reply = who.client.post(f"/v1/jobs/{job_id}/retry?wait=20")
    body = reply.json()
    assert (reply.status_code, body["state"], body["pages_failed"], body["pages_charged"]) == (200, "succeeded", 0, 2)
    assert [page["attempt"] for page in body["pages"]] == [2, 2]
    assert [(page.state, page.error_code) for page in stored_pages(live, job_id)] == [("succeeded", None)] * 2
    assert usage_of(live, job_id) == [("failed", 0), ("read", 1)] * 2
    assert_problem(who.client.post(f"/v1/jobs/{job_id}/retry"), 409, "nothing_to_retry")


def test_one_page_is_retried_when_the_body_names_it(live: Portal, alice: Persona) -> None:
    job_id = _failed(live, alice)
    live.engine.is_held = True
    reply = alice.client.post(f"/v1/jobs/{job_id}/retry", json={"pages": [2]})
    assert (reply.status_code, reply.json()["state"]) == (202, "running")
    assert_problem(alice.client.post(f"/v1/jobs/{job_id}/retry", json={"pages": [2]}), 409, "page_not_failed")
    live.engine.is_held = False
    body = alice.client.get(f"/v1/jobs/{job_id}?wait=20").json()
    assert (body["state"], [page["state"] for page in body["pages"]]) == ("partial", ["failed", "succeeded"])
    assert sorted(usage_of(live, job_id)) == [("failed", 0), ("failed", 0), ("read", 1)]


def test_nothing_is_retried_when_a_stranger_asks(live: Portal, alice: Persona, charlie: Persona) -> None:
    job_id = _failed(live, alice)
    assert_problem(charlie.client.post(f"/v1/jobs/{job_id}/retry", json={"pages": [1]}), 404, "not_found")
    assert [page.state for page in stored_pages(live, job_id)] == ["failed"] * 2
    assert usage_of(live, job_id) == [("failed", 0)] * 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"pages": [3]}, "page_out_of_range"),
        ({"pages": [0]}, "invalid_request"),
        ({"pages": [2**40]}, "invalid_request"),
        ({"pages": []}, "invalid_request"),
        ({"pages": "1"}, "invalid_request"),
        ({"page": [1]}, "invalid_request"),
    ],
)
def test_retry_is_refused_when_its_body_is_wrong(live: Portal, alice: Persona, body: object, code: str) -> None:
    job_id = _failed(live, alice)
    assert_problem(alice.client.post(f"/v1/jobs/{job_id}/retry", json=body), 422, code)
    assert [page.state for page in stored_pages(live, job_id)] == ["failed"] * 2


def test_jobs_are_found_by_what_is_on_their_pages(live: Portal, alice: Persona, bob: Persona, charlie: Persona) -> None:
    live.engine.script = (answers("Lieferschein 4711"),)
    job_id = _submit(alice)["id"]
    live.engine.script = (answers("Total 9.00"),)
    _submit(alice)
    for who, words, found in (
        (alice, "LIEFERSCHEIN scan.pdf", [job_id]),
        (bob, str(job_id), [job_id]),
        (charlie, "4711", []),
        (alice, "4712", []),
    ):
        reply = who.client.get("/v1/jobs", params={"q": words}).json()
        assert [job["id"] for job in reply["data"]] == found, words
    assert_problem(alice.client.get("/v1/jobs", params={"q": "a " * 9}), 422, "invalid_request")


IMPOSSIBLE_IDS = ("%00", "a%00", "%ff", "a%20b", "x" * 61, "..%00")


@pytest.mark.parametrize("given", IMPOSSIBLE_IDS)
def test_nothing_is_found_when_no_job_can_have_the_id(
    alice: Persona, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = ((queries, "get_job"), (history, "find"), (endings, "cancel"), (endings, "delete"), (jobs, "retry"))
    for module, name in asking:
        monkeypatch.setattr(module, name, None)  # Postgres takes no NUL: it must not be asked
    for method, path in (
        ("GET", f"/v1/jobs/{given}"),
        ("GET", f"/v1/jobs/{given}/result"),
        ("GET", f"/v1/jobs/{given}/pages/1/image"),
        ("POST", f"/v1/jobs/{given}/cancel"),
        ("POST", f"/v1/jobs/{given}/retry"),
        ("DELETE", f"/v1/jobs/{given}"),
    ):
        assert_problem(alice.client.request(method, path), 404, "not_found")
    assert_problem(alice.client.get(f"/v1/jobs?before={given}"), 404, "not_found")


@pytest.mark.parametrize("position", ["99999999999", "99999999999999999999999", "0", "9" * 5000])
def test_page_is_refused_when_no_page_can_have_the_position(alice: Persona, position: str) -> None:
    assert_problem(alice.client.get(f"/v1/jobs/job_1/pages/{position}/image"), 422, "invalid_request")


def test_link_to_cancel_is_given_only_while_the_job_can_be_cancelled(live: Portal, alice: Persona) -> None:
    job_id = _hold(live, alice)
    assert alice.client.get(f"/v1/jobs/{job_id}").json()["links"]["cancel"] == f"/v1/jobs/{job_id}/cancel"
    cancelled = alice.client.post(f"/v1/jobs/{job_id}/cancel").json()
    assert cancelled["links"]["cancel"] is None
    [listed] = alice.client.get("/v1/jobs").json()["data"]
    assert listed["links"]["cancel"] is None


@pytest.mark.parametrize("names", ['["a\\u0000b"]', '["a\\ud800b"]', "a\nb"])
def test_field_name_is_refused_when_it_cannot_be_shown(alice: Persona, names: str) -> None:
    reply = alice.client.post("/v1/jobs", files=[("files", ("a.png", png()))], data={"task": "fields", "fields": names})
    assert_problem(reply, 422, "invalid_request")


@pytest.mark.parametrize(
    ("part", "detail"),
    [
        (("file", ("a.png", b"x")), "file: is no part of this form; did you mean 'files'?"),
        (("document", ("a.png", b"x")), "document: is no part of this form; did you mean 'files'?"),
        (("option", (None, "{}")), "option: is no part of this form; did you mean 'options'?"),
        (("colour", (None, "red")), "colour: is no part of this form"),
    ],
)
def test_form_part_is_named_when_there_is_no_such(alice: Persona, part: Any, detail: str) -> None:
    body = assert_problem(alice.client.post("/v1/jobs", files=[part]), 422, "invalid_request")
    assert body["detail"] == detail
    assert "files, fields, options, schema, task, template" in body["remedy"]


def test_form_part_is_named_when_it_came_twice(alice: Persona) -> None:
    twice = [("task", (None, "extract")), ("task", (None, "extract"))]
    body = assert_problem(alice.client.post("/v1/jobs", files=twice), 422, "invalid_request")
    assert body["detail"] == "task: came twice"
