"""Results and page images in the browser, by three people: alice, bob of her tenant, charlie of another."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from models import DocumentRow, Job, Member, Page, SignInSession, Tenant
from portal.accounts import sessions
from portal.db import Database
from portal.documents.storage import Storage
from portal.documents.thumbnails import thumbnail
from portal.domain import FieldSpec, Task, TaskPrompt
from portal.errors import Busy
from portal.http.downloads import attachment
from portal.jobs import queries
from portal.jobs.claims import prompt_to_json
from portal.jobs.context import Engines, JobContext
from portal.jobs.notices import Notices
from portal.page_text import Block, FieldValue, Line, PageText
from portal.results.serial import field_to_json, page_text_to_json
from portal.services import Services
from portal.settings import AccountSettings, EngineSettings, IntakeSettings, ServerSettings, Settings, StoreSettings
from portal.web import downloads, pages
from portal.web.downloads import router

HTML = {"Accept": "text/html"}


@dataclass
class Desk:
    """An app with the file routes, a finished job of one page, and tokens of its people."""

    app: FastAPI
    database: Database
    job_id: str
    tokens: dict[str, str]
    image: Path
    context: JobContext

    def client(self, who: str | None) -> TestClient:
        cookies = {sessions.COOKIE_NAME: self.tokens[who]} if who else {}
        return TestClient(self.app, cookies=cookies, follow_redirects=False)

    @property
    def tenant_id(self) -> str:
        with self.database.reading() as session:
            return session.get_one(Job, self.job_id).tenant_id

    @property
    def result(self) -> str:
        return f"/files/jobs/{self.job_id}/result"

    @property
    def page(self) -> str:
        return f"/files/jobs/{self.job_id}/pages/1.jpg"

    @property
    def small(self) -> str:
        return f"/files/jobs/{self.job_id}/pages/1.small.jpg"

    @property
    def reading(self) -> str:
        return f"/files/jobs/{self.job_id}/pages/1.json"


@pytest.fixture
def desk(database: Database, tmp_path: Path) -> Desk:
    data_dir = tmp_path / "data"
    settings = Settings(
        ServerSettings(), StoreSettings(data_dir=data_dir), AccountSettings(), IntakeSettings(), EngineSettings()
    )
    storage = Storage(data_dir)
    context = JobContext(settings, database, storage, cast(Any, None), Engines(()), Notices())
    with database.transaction() as session:
        acme, other = Tenant(name="acme"), Tenant(name="other")
        session.add_all([acme, other])
        session.flush()
        people = {
            name: Member(tenant_id=tenant.id, email=f"{name}@x.example", password_hash="-", role=role)
            for name, tenant, role in (("alice", acme, "owner"), ("bob", acme, "member"), ("charlie", other, "owner"))
        }
        session.add_all(people.values())
        session.flush()
        tokens = {}
        for name, member in people.items():
            tokens[name] = f"token-of-{name}"
            browser = sessions._Browser(tokens[name], None, None)
            sessions._open(session, member, browser, sessions.timedelta(days=1))
        job_id, document_id = _finished_job(session, acme.id, people["alice"].id)
        image = storage.page_view_path(acme.id, document_id, 1)
    image.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (60, 80), "white").save(image, "JPEG")
    app = FastAPI()
    pages.install(app)
    app.include_router(router(Services(settings, database, cast(Any, None), context)))
    return Desk(app, database, job_id, tokens, image, context)


def _finished_job(session: Any, tenant_id: str, member_id: str) -> tuple[str, str]:
    line = Line("Größe 42", (0, 0, 50, 10), 0.9)
    text = PageText(60, 80, (line,), (Block("text", (((0,),),)),), "Größe 42")
    document = DocumentRow(
        tenant_id=tenant_id,
        member_id=member_id,
        file_name='Rechnung "März" 2024.pdf',
        media_type="application/pdf",
        byte_size=10,
        sha256="0" * 64,
        page_count=1,
    )
    job = Job(
        tenant_id=tenant_id,
        member_id=member_id,
        task="extract",
        engine="default",
        engine_profile="1",
        state="succeeded",
        page_count=1,
    )
    session.add_all([document, job])
    session.flush()
    session.add(
        Page(
            tenant_id=tenant_id,
            job_id=job.id,
            document_id=document.id,
            position=1,
            number=1,
            state="succeeded",
            result=page_text_to_json(text),
        )
    )
    session.flush()
    return job.id, document.id


@pytest.mark.parametrize("who", ["alice", "bob"])
@pytest.mark.parametrize(
    ("format", "media_type"),
    [("txt", "text/plain; charset=utf-8"), ("markdown", "text/markdown; charset=utf-8"), ("json", "application/json")],
)
def test_result_is_saved_when_a_member_of_the_tenant_asks(desk: Desk, who: str, format: str, media_type: str) -> None:
    answer = desk.client(who).get(desk.result, params={"format": format})
    assert answer.status_code == 200
    assert "Größe 42" in answer.text
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def _exports(job_id: str) -> list[str]:
    return [f"/files/export?job={job_id}", f"/files/fields.csv?job={job_id}"]


def test_nothing_is_found_when_the_job_is_another_tenants(desk: Desk) -> None:
    charlie = desk.client("charlie")
    for path in (desk.result, desk.page, desk.small, desk.reading, *_exports(desk.job_id)):
        theirs, never = charlie.get(path), charlie.get(path.replace(desk.job_id, "job_never"))
        assert (theirs.status_code, theirs.json()["code"]) == (404, "not_found")
        assert theirs.json() | {"request_id": ""} == never.json() | {"request_id": ""}
        assert charlie.get(path, headers=HTML).status_code == 404


def test_stranger_must_sign_in(desk: Desk) -> None:
    stranger = desk.client(None)
    for path in (desk.result, desk.page, desk.small, desk.reading, *_exports(desk.job_id)):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
        link = stranger.get(path, headers=HTML)
        assert (link.status_code, link.headers["location"].split("=")[0]) == (303, "/login?next")


def test_files_end_when_the_session_does(desk: Desk) -> None:
    alice = desk.client("alice")
    assert alice.get(desk.page).status_code == 200
    with desk.database.transaction() as session:
        session.query(SignInSession).delete()
    assert alice.get(desk.page).status_code == 401


def test_page_image_is_shown_and_kept_when_it_has_not_changed(desk: Desk) -> None:
    bob = desk.client("bob")
    first = bob.get(desk.page)
    assert (first.status_code, first.headers["content-type"]) == (200, "image/jpeg")
    assert first.content == desk.image.read_bytes()
    assert first.headers["cache-control"] == "private, no-cache"
    again = bob.get(desk.page, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    desk.image.write_bytes(b"another image")
    assert bob.get(desk.page, headers={"If-None-Match": first.headers["etag"]}).status_code == 200


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_zip_of_the_jobs_is_saved_when_a_member_exports_them(desk: Desk, who: str) -> None:
    answer = desk.client(who).get("/files/export", params={"job": [desk.job_id], "format": "markdown"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert re.fullmatch(
        r"attachment; filename=\"jobs-[0-9-]{10}-markdown\.zip\".*", answer.headers["content-disposition"]
    )
    assert answer.headers["cache-control"] == "no-store"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as bundle:
        [name, *receipts] = bundle.namelist()
        assert receipts == ["receipt.txt", "receipt.json"]
        assert (name, bundle.read(name).decode()) == ("Rechnung _März_ 2024.md", "Größe 42\n")


@pytest.mark.parametrize(("who", "status"), [("alice", 200), ("bob", 200), ("charlie", 200), (None, 303)])
def test_receipts_are_saved_by_members_of_a_tenant_only(desk: Desk, who: str | None, status: int) -> None:
    answer = desk.client(who).get("/files/usage.csv?days=30", headers=HTML)
    assert answer.status_code == status
    if status == 200:
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert "no-store" in answer.headers["Cache-Control"]
        assert answer.text.startswith("\ufefftime,day,job_id")


@pytest.mark.parametrize("days", ["0", "999", "x", ""])
def test_receipts_of_no_days_are_refused(desk: Desk, days: str) -> None:
    assert desk.client("alice").get(f"/files/usage.csv?days={days}").status_code == 422


def test_table_of_fields_is_saved_of_the_jobs_that_have_some(desk: Desk) -> None:
    query = {"job": [desk.job_id]}
    refused = desk.client("alice").get("/files/fields.csv", params=query)
    assert (refused.status_code, refused.json()["code"]) == (409, "no_fields")
    with desk.database.transaction() as session:
        prompt = prompt_to_json(TaskPrompt(Task.FIELDS, (FieldSpec("size"),)))
        session.query(Job).update({"task": "fields", "prompt": prompt})
        session.query(Page).update({"fields": [field_to_json(FieldValue("size", "=42"))]})
    answer = desk.client("bob").get("/files/fields.csv", params=query)
    head, line = answer.content.decode().splitlines()
    assert (head, line) == ("\ufefffile,job,to_check,size", f'"Rechnung ""März"" 2024.pdf",{desk.job_id},no,\'=42')
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    with desk.context.heavy_reads.exports.one(desk.tenant_id), desk.context.heavy_reads.exports.one(desk.tenant_id):
        assert desk.client("alice").get("/files/fields.csv", params=query).json()["code"] == "export_busy"


def test_zip_is_refused_whole_when_one_job_is_not_the_tenants(desk: Desk) -> None:
    answer = desk.client("alice").get("/files/export", params={"job": [desk.job_id, "job_never"]})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert not list((desk.image.parents[5]).glob("tmp*")), "nothing is left in the data folder"


def test_third_zip_of_a_tenant_is_refused_while_two_are_under_way(desk: Desk) -> None:
    query = {"job": [desk.job_id]}
    exports = desk.context.heavy_reads.exports
    with exports.one(desk.tenant_id), exports.one(desk.tenant_id):
        refused = desk.client("bob").get("/files/export", params=query)
        assert (refused.status_code, refused.json()["code"]) == (503, "export_busy")
        assert refused.headers["retry-after"] == "15"
        assert "exports of your tenant" in desk.client("bob").get("/files/export", params=query, headers=HTML).text
    for _ in range(3):  # each gives its turn back when it has been downloaded
        assert desk.client("alice").get("/files/export", params=query).status_code == 200
    missing = {"job": ["job_never"]}
    for _ in range(3):  # or when it came to nothing
        assert desk.client("alice").get("/files/export", params=missing).status_code == 404


def test_zip_holds_its_turn_until_its_download_ends(desk: Desk) -> None:
    services = Services(desk.context.settings, desk.database, cast(Any, None), desk.context)
    zips = [downloads._written(services, desk.tenant_id, lambda file: file.write(b"zip")) for _ in range(2)]
    assert [next(one) for one in zips] == [b"3", b"3"]
    with pytest.raises(Busy):
        next(downloads._written(services, desk.tenant_id, lambda file: file.write(b"zip")))
    zips.pop()  # its client went away before a byte was sent
    assert list(downloads._written(services, desk.tenant_id, lambda file: file.write(b"zip"))) == [b"3", b"zip"]


def test_zip_is_refused_in_words_when_the_data_folder_is_away(desk: Desk) -> None:
    data_dir = desk.image.parents[5]
    data_dir.rename(data_dir.with_name("away"))
    answer = desk.client("alice").get("/files/export", params={"job": [desk.job_id]})
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unavailable")
    assert answer.json()["remedy"]


@pytest.mark.parametrize("query", ["", "?job=" + "&job=".join(str(n) for n in range(201)), "?job=x&format=exe"])
def test_zip_is_refused_when_the_request_makes_no_sense(desk: Desk, query: str) -> None:
    assert desk.client("alice").get(f"/files/export{query}").status_code == 422


def test_page_is_given_as_data_and_never_kept(desk: Desk) -> None:
    bob = desk.client("bob")
    first = bob.get(desk.reading)
    assert (first.status_code, first.headers["content-type"]) == (200, "application/json")
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["x-content-type-options"] == "nosniff"
    shown = first.json()
    assert shown["file_name"] == 'Rechnung "März" 2024.pdf'
    assert (shown["state"], shown["is_blank"], shown["error"]) == ("succeeded", False, None)
    assert (shown["has_image"], shown["lines_to_check"]) == (True, None)
    assert shown["page_text"]["lines"][0]["text"] == "Größe 42"
    assert (shown["language"], shown["block_markdown"]) == (None, ["Größe 42"])
    with desk.database.transaction() as session:
        session.query(Page).update(
            {"state": "failed", "error_code": "x", "result": None, "error_message": "No.", "error_remedy": "Retry."}
        )
    changed = bob.get(desk.reading)
    assert changed.status_code == 200
    assert (changed.json()["page_text"], changed.json()["error"]["remedy"]) == (None, "Retry.")


def test_thumbnail_is_small_and_in_proportion(desk: Desk) -> None:
    Image.new("RGB", (1600, 2400), "white").save(desk.image, "JPEG")
    answer = desk.client("alice").get(desk.small)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
    assert Image.open(BytesIO(answer.content)).size == (160, 240)
    again = desk.client("alice").get(desk.small, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_nothing_is_found_when_the_page_goes_while_its_thumbnail_is_made(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deleted_first(view: Path) -> bytes:
        view.unlink()
        return thumbnail(view)

    monkeypatch.setattr(downloads, "thumbnail", deleted_first)
    answer = desk.client("alice").get(desk.small)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "path",
    [
        "pages/2.json",
        "pages/0.small.jpg",
        "pages/99999999999999999999.json",
        "pages/2.jpg",
        "pages/0.jpg",
        "pages/-1.jpg",
        "pages/99999999999999999999.jpg",
    ],
)
def test_nothing_is_found_when_the_page_is_not_in_the_job(desk: Desk, path: str) -> None:
    assert desk.client("alice").get(f"/files/jobs/{desk.job_id}/{path}").status_code == 404


@pytest.mark.parametrize("path", ["result?format=exe", "pages/x.jpg", "pages/x.json", "pages/1.5.small.jpg"])
def test_request_is_refused_when_it_makes_no_sense(desk: Desk, path: str) -> None:
    assert desk.client("alice").get(f"/files/jobs/{desk.job_id}/{path}").status_code == 422


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("scan.txt", "attachment; filename=\"scan.txt\"; filename*=UTF-8''scan.txt"),
        ('a"b.txt', "attachment; filename=\"a_b.txt\"; filename*=UTF-8''a%22b.txt"),
        ("Größe.txt", "attachment; filename=\"Gr__e.txt\"; filename*=UTF-8''Gr%C3%B6%C3%9Fe.txt"),
        ("a\r\nX: y/../b", "attachment; filename=\"a__X: y/../b\"; filename*=UTF-8''a%0D%0AX%3A%20y%2F..%2Fb"),
    ],
)
def test_file_name_is_safe_in_the_header(name: str, header: str) -> None:
    assert attachment(name) == header


@pytest.mark.parametrize("job_id", ["%00", "a%00", "a%20b", "x" * 61, "%ff"])
def test_nothing_is_found_when_no_job_can_have_the_id(desk: Desk, job_id: str) -> None:
    paths = [f"jobs/{job_id}/{path}" for path in ("result", "pages/1.jpg", "pages/1.small.jpg", "pages/1.json")]
    for path in (*paths, f"export?job={job_id}", f"fields.csv?job={job_id}"):
        answer = desk.client("alice").get(f"/files/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_database_is_not_asked_when_no_job_can_have_the_id(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "export_job", None)
    assert desk.client("alice").get("/files/jobs/a%00/result").status_code == 404
