"""/v1/usage, its CSV, /v1/price, receipts and X-RateLimit-*, by alice, bob, charlie and a key that may too little."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select

from models import DocumentRow, Job, LedgerEntry, RefusalCount, Reservation, TenantUsage
from portal.domain import Scope
from portal.engine.fakes import blank
from tests.api.conftest import Persona, Portal, assert_problem, pdf, png
from tests.ledger import limit_tenant


def _read(who: Persona, *files: tuple[str, bytes], options: str = "{}") -> dict[str, object]:
    sent = [("files", file) for file in files]
    reply = who.client.post("/v1/jobs?wait=30", files=sent, data={"options": options})
    assert reply.status_code == 200, reply.text
    body: dict[str, object] = reply.json()
    return body


def test_usage_is_the_tenants_when_its_members_and_others_ask(
    live: Portal, alice: Persona, bob: Persona, charlie: Persona
) -> None:
    job = _read(bob, ("scan.pdf", pdf(3)))
    assert job["receipt"] == {
        "reserved": 3,
        "charged": 3,
        "returned": 0,
        "pending": 0,
        "lines": [
            {
                "kind": "reserved",
                "reason": "submitted",
                "pages": 3,
                "free_pages": 0,
                "words": "set aside when the job was submitted",
            },
            {"kind": "posted", "reason": "read", "pages": 3, "free_pages": 0, "words": "read"},
        ],
    }
    for who, charged in ((alice, 3), (bob, 3), (charlie, 0)):
        body = who.client.get("/v1/usage").json()
        assert body["total"]["charged"] == charged
        assert len(body["days"]) == 30
        assert body["days"][-1]["charged"] == charged
        [day] = [limit for limit in body["limits"] if limit["limit"] == "pages_per_day"]
        assert (day["allowed"], day["used"], day["remaining"]) == (5000, charged, 5000 - charged)
        assert body["plan"] == "standard"
    assert [member["name"] for member in alice.client.get("/v1/usage").json()["members"]] == [bob.principal.email]
    me = charlie.client.get("/v1/me").json()
    assert (me["tenant"]["plan"], me["tenant"]["time_zone"], me["tenant"]["state"]) == ("standard", "UTC", "active")
    assert {limit["limit"] for limit in me["standing"]} >= {"pages_per_day", "pages_in_flight"}


@pytest.mark.parametrize(
    "query", ["first_day=soon", "first_day=2026-02-01&last_day=2026-01-01", "first_day=1999-01-01"]
)
@pytest.mark.parametrize("path", ["/v1/usage", "/v1/usage.csv"])
def test_range_is_refused_when_it_makes_no_sense(alice: Persona, path: str, query: str) -> None:
    assert_problem(alice.client.get(f"{path}?{query}"), 422, "invalid_request")


def test_csv_has_a_line_for_each_receipt_and_nothing_that_a_spreadsheet_runs(
    alice: Persona, charlie: Persona, people: Callable[..., Persona], live: Portal
) -> None:
    from portal.accounts import api_keys

    with live.services.database.transaction() as session:
        name = '=HYPERLINK("http://x")'
        made = api_keys.create(
            session, live.services.peppers, alice.principal, name=name, scopes=(Scope.OCR,), expires_at=None
        )
    live.engine.script = (blank(),)
    headers = {"Authorization": f"Bearer {made.key}"}
    files = {"files": ("scan.pdf", pdf(3))}
    assert alice.client.post("/v1/jobs?wait=30", files=files, headers=headers).status_code == 200
    reply = alice.client.get("/v1/usage.csv")
    assert reply.headers["Content-Disposition"].startswith('attachment; filename="usage-')
    [row] = csv.DictReader(io.StringIO(reply.content.decode("utf-8-sig")))
    assert row["api_key"] == f"'{name}"
    assert (row["reserved"], row["charged"], row["returned"]) == ("3", "0", "3")
    assert row["reasons"] == "3 no text found"
    assert len(charlie.client.get("/v1/usage.csv").text.splitlines()) == 1


def test_no_time_to_wait_is_told_when_the_pages_may_never_be_in_flight(live: Portal, alice: Persona) -> None:
    limit_tenant(live.services.database, alice.principal.tenant_id, pages_in_flight=8)
    refused = alice.client.post("/v1/jobs", files={"files": ("c.pdf", pdf(12))})
    body = refused.json()
    assert (refused.status_code, body["code"], body["limit"], body["allowed"]) == (
        422,
        "too_many_pages",
        "pages_in_flight",
        8,
    )
    assert refused.headers["X-RateLimit-Limit"] == "8"
    assert not {"retry-after", "x-ratelimit-reset"} & set(refused.headers)


def test_price_counts_the_pages_and_spends_nothing(live: Portal, alice: Persona) -> None:
    limit_tenant(live.services.database, alice.principal.tenant_id, pages_per_day=8)
    files = [("files", ("a.pdf", pdf(5))), ("files", ("../b.png", png()))]
    body = alice.client.post("/v1/price", files=files).json()
    assert (body["pages"], body["pages_left"], body["is_accepted"], body["refusal"]) == (6, 8, True, None)
    assert body["eta_seconds"] > 0
    assert [(file["file_name"], file["page_count"]) for file in body["files"]] == [("a.pdf", 5), ("b.png", 1)]
    body = alice.client.post("/v1/price", files={"files": ("c.pdf", pdf(12))}).json()
    assert not body["is_accepted"]
    assert (body["refusal"]["code"], body["refusal"]["limit"]) == ("quota_exhausted", "pages_per_day")
    assert (body["refusal"]["allowed"], body["refusal"]["used"]) == (8, 0)
    assert "may have 8 read in a day" in body["refusal"]["detail"]
    body = alice.client.post(
        "/v1/price", files={"files": ("c.pdf", pdf(12))}, data={"options": '{"pages": "1-8"}'}
    ).json()
    assert (body["pages"], body["is_accepted"]) == (8, True)
    with live.services.database.reading() as session:
        for table in (Job, DocumentRow, Reservation, LedgerEntry, RefusalCount):
            own = select(func.count()).select_from(table).where(table.tenant_id == alice.principal.tenant_id)
            assert session.scalar(own) == 0, table
        counters = session.get_one(TenantUsage, alice.principal.tenant_id)
        assert (counters.day_pages, counters.month_pages, counters.pending_pages) == (0, 0, 0)


def test_a_price_is_one_of_the_requests_a_minute(live: Portal, alice: Persona) -> None:
    limit_tenant(live.services.database, alice.principal.tenant_id, requests_per_minute=1)
    files = {"files": ("a.png", png())}
    told = alice.client.post("/v1/price", files=files).json()
    assert (told["pages"], told["refusal"]["code"]) == (1, "rate_limited")
    refused = alice.client.post("/v1/price", files=files)
    assert_problem(refused, 429, "rate_limited")
    assert refused.headers["X-RateLimit-Resource"] == "requests_per_minute"
    assert int(refused.headers["Retry-After"]) > 0
    with live.services.database.reading() as session:
        [count] = session.scalars(select(RefusalCount).where(RefusalCount.tenant_id == alice.principal.tenant_id))
        assert (count.code, count.requests, count.pages) == ("rate_limited", 1, 0)


def test_price_of_what_was_read_before_is_nought(live: Portal, alice: Persona) -> None:
    read, other = ("files", ("a.pdf", pdf(2))), ("files", ("b.pdf", pdf(3)))
    assert alice.client.post("/v1/jobs?wait=30", files=[read]).json()["state"] == "succeeded"
    limit_tenant(live.services.database, alice.principal.tenant_id, pages_per_day=3)

    def asked(files: list[Any], **options: object) -> dict[str, Any]:
        form = {"options": json.dumps(options)}
        body: dict[str, Any] = alice.client.post("/v1/price", files=files, data=form).json()
        accepted = alice.client.post("/v1/jobs?wait=30", files=files, data=form).status_code == 200
        assert body["is_accepted"] == accepted  # the price says what the order is answered
        return body

    assert [asked([read])[name] for name in ("pages", "free_pages", "eta_seconds")] == [0, 2, 0]
    both = asked([read, other], pages="1")
    assert [(file["pages"], file["free_pages"]) for file in both["files"]] == [(0, 1), (1, 0)]
    spent = asked([read, other])
    assert (spent["pages"], spent["free_pages"], spent["refusal"]["used"]) == (2, 3, 3)
    assert asked([read], fresh=True)["pages"] == 2


def test_price_names_the_file_that_cannot_be_read_and_counts_the_others(alice: Persona) -> None:
    files = [("files", ("notes.txt", b"no scan")), ("files", ("a.png", png())), ("files", ("b.png", png()))]
    body = alice.client.post("/v1/price", files=files, data={"options": '{"pages": "1-2"}'}).json()
    assert [file["error"] and file["error"]["code"] for file in body["files"]] == [
        "file_type_unknown",
        "page_out_of_range",
        "page_out_of_range",
    ]
    assert (body["refusal"]["code"], body["pages"]) == ("file_type_unknown", 0)


def test_price_is_refused_as_an_order_is(alice: Persona, people: Callable[..., Persona]) -> None:
    assert_problem(alice.client.post("/v1/price", files={"x": ("a", b"")}), 422, "invalid_request")
    many = [("files", ("a.png", png()))] * 5
    assert_problem(alice.client.post("/v1/price", files=many), 422, "too_many_files")
    reader = people(alice.principal, scopes=(Scope.READ,))
    assert_problem(reader.client.post("/v1/price", files={"files": ("a.png", png())}), 403, "scope_lacking")
    writer = people(alice.principal, scopes=(Scope.OCR,))
    assert_problem(writer.client.get("/v1/usage"), 403, "scope_lacking")
    assert_problem(writer.client.get("/v1/usage.csv"), 403, "scope_lacking")


def test_accepted_answers_say_how_near_the_nearest_limit_is(live: Portal, alice: Persona) -> None:
    limit_tenant(live.services.database, alice.principal.tenant_id, pages_per_day=4)
    for answer in (
        alice.client.post("/v1/jobs", files={"files": ("a.pdf", pdf(2))}),
        alice.client.post(
            "/v1/ocr",
            json={
                "model": "default",
                "document": {"type": "document_url", "document_url": f"data:application/pdf;base64,{_base64(pdf(2))}"},
            },
        ),
    ):
        assert answer.status_code in (200, 202), answer.text
        assert answer.headers["X-RateLimit-Resource"] == "pages_per_day"
        assert answer.headers["X-RateLimit-Limit"] == "4"
        assert 0 < int(answer.headers["X-RateLimit-Reset"]) <= 86_400
    assert answer.headers["X-RateLimit-Remaining"] == "0"
    refused = alice.client.post("/v1/jobs", files={"files": ("a.png", png())})
    problem = assert_problem(refused, 429, "quota_exhausted")
    assert (problem["limit"], problem["allowed"], problem["used"]) == ("pages_per_day", 4, 4)
    with live.services.database.reading() as session:
        own = select(RefusalCount.requests).where(RefusalCount.tenant_id == alice.principal.tenant_id)
        assert session.scalars(own).all() == [1]


def _base64(content: bytes) -> str:
    import base64

    return base64.b64encode(content).decode()


_EDGES = ("0001-01-01", "0001-01-02", "9999-12-30", "9999-12-31")


@pytest.mark.parametrize("day", _EDGES)
def test_edge_of_the_calendar_is_a_day_like_others(alice: Persona, day: str) -> None:
    for query in (f"first_day={day}&last_day={day}", f"last_day={day}"):
        assert alice.client.get(f"/v1/usage?{query}").status_code == 200
        file = alice.client.get(f"/v1/usage.csv?{query}")
        assert (file.status_code, len(file.text.splitlines())) == (200, 1)
