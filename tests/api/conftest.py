"""A live portal on a real port: the router over SQLite, storage, sandbox and dispatcher, with a scripted engine."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from PIL import Image, ImageDraw
from reportlab.pdfgen.canvas import Canvas
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

import portal.api
from models import Base, Job, Member, Page, Tenant
from portal.accounts import api_keys
from portal.accounts.members import member_principal
from portal.accounts.peppers import Peppers
from portal.accounts.tenants import create_tenant
from portal.api.contract import REFUSALS
from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.documents.storage import Storage
from portal.domain import Principal, Role, Scope
from portal.engine.base import Engine
from portal.engine.fakes import FakeEngine, answers
from portal.http.bodies import BoundedBodies
from portal.http.connections import BoundedHttpProtocol
from portal.jobs.context import Engines, JobContext
from portal.jobs.dispatch import Dispatcher
from portal.jobs.notices import Notices
from portal.services import Services
from portal.settings import (
    AccountSettings,
    EngineSettings,
    IntakeSettings,
    ServerSettings,
    Settings,
    StoreSettings,
)
from portal.web.headers import SecurityHeaders
from tests.ledger import page_ends

READ_AND_WRITE = (Scope.OCR, Scope.READ)


@dataclass(frozen=True)
class Portal:
    """The running portal as tests reach it."""

    url: str
    services: Services
    engine: FakeEngine


@dataclass(frozen=True)
class Persona:
    """A member with a key and a client that sends it."""

    principal: Principal
    key: str
    client: httpx.Client


@pytest.fixture(scope="session")
def _live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    engine = FakeEngine()
    with serving(tmp_path_factory.mktemp("portal"), [engine]) as (url, services):
        yield Portal(url, services, engine)


@contextlib.contextmanager
def serving(data_dir: Path, engines: Sequence[Engine], *, page_seconds: int = 10) -> Iterator[tuple[str, Services]]:
    """A portal with these engines in a thread of this process; its address and its parts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        services = _services(data_dir, port, engines, page_seconds)
        config = uvicorn.Config(
            _app(services), http=BoundedHttpProtocol, log_config=None, access_log=False, lifespan="on"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}", services
        finally:
            server.should_exit = True
            thread.join(timeout=20)
            services.jobs.sandbox.close()
            services.database.dispose()


def _services(data_dir: Path, port: int, engines: Sequence[Engine], page_seconds: int) -> Services:
    settings = Settings(
        ServerSettings(port=port),
        StoreSettings(data_dir=data_dir),
        AccountSettings(),
        IntakeSettings(max_file_bytes=2**20, max_job_files=4, max_document_pages=20),
        EngineSettings(page_seconds=page_seconds, max_backlog_pages=30),
    )
    database = Database(settings.database_url)
    Base.metadata.create_all(database.engine)
    sandbox = Sandbox(settings.intake)
    jobs = JobContext(settings, database, Storage(data_dir), sandbox, Engines(engines), Notices())
    return Services(settings, database, Peppers.from_secrets(["s" * 40]), jobs)


def _app(services: Services) -> SecurityHeaders:
    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        dispatching = asyncio.create_task(Dispatcher(services.jobs).run())
        yield
        dispatching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await dispatching
        await asyncio.to_thread(services.door.close)
        for engine in services.jobs.engines.all:
            await engine.close()

    app = FastAPI(openapi_url=None, lifespan=lifespan)
    app.include_router(portal.api.router(services))
    portal.api.install(app)
    app.mount("/", Starlette(routes=[Route("/{rest:path}", _page)]))
    return SecurityHeaders(BoundedBodies(app))


async def _page(request: Request) -> HTMLResponse:
    """Stands where the browser's pages are mounted: it answers every path that the API leaves alone."""
    return HTMLResponse("<h1>a page</h1>", status_code=404)


@pytest.fixture
def live(_live: Portal) -> Iterator[Portal]:
    """The running portal, idle, with an engine that reads 'Total 9.00' on each page."""
    _live.engine.script = (answers("Total 9.00"),)
    _live.engine.calls.clear()
    _live.engine.order.clear()
    yield _live
    _live.engine.is_held = False
    wait_until(lambda: _is_idle(_live))


def _is_idle(live: Portal) -> bool:
    open_pages = select(Page.id).where(Page.state.in_(("queued", "running"))).limit(1)
    with live.services.database.reading() as session:
        return session.scalar(open_pages) is None and live.engine.calls_now == 0


@pytest.fixture
def database(live: Portal) -> Database:
    """The database that the portal runs on."""
    return live.services.database


@pytest.fixture
def people(live: Portal) -> Iterator[Callable[..., Persona]]:
    """Makes personas: `people(principal, scopes=…, expires_at=…)`."""
    with contextlib.ExitStack() as stack:

        def make(principal: Principal, **options: object) -> Persona:
            options.setdefault("scopes", READ_AND_WRITE)
            services = live.services
            with services.database.transaction() as session:
                created = api_keys.create(session, services.peppers, principal, name="test", **options)  # type: ignore[arg-type]
            headers = {"Authorization": f"Bearer {created.key}"}
            client = stack.enter_context(httpx.Client(base_url=live.url, headers=headers, timeout=30))
            return Persona(principal, created.key, client)

        yield make


@pytest.fixture
def alice(live: Portal, people: Callable[..., Persona]) -> Persona:
    """The owner of a fresh tenant."""
    return people(_owner(live))


@pytest.fixture
def bob(live: Portal, alice: Persona, people: Callable[..., Persona]) -> Persona:
    """A member of alice's tenant."""
    return people(member_of(live, alice))


@pytest.fixture
def charlie(live: Portal, people: Callable[..., Persona]) -> Persona:
    """The owner of another tenant."""
    return people(_owner(live))


@pytest.fixture
def dora(live: Portal, people: Callable[..., Persona]) -> Persona:
    """The owner of a third tenant."""
    return people(_owner(live))


def member_of(live: Portal, owner: Persona) -> Principal:
    """A new member of the owner's tenant."""
    with live.services.database.transaction() as session:
        tenant = session.get_one(Tenant, owner.principal.tenant_id)
        member = Member(
            tenant_id=tenant.id,
            email=f"{uuid.uuid4().hex}@example.org",
            password_hash="x",
            role=Role.MEMBER,
        )
        session.add(member)
        session.flush()
        return member_principal(member, tenant)


def admin_of(live: Portal) -> Principal:
    """A new admin of the portal, in a tenant of its own."""
    owner = _owner(live)
    with live.services.database.transaction() as session:
        member = session.get_one(Member, owner.member_id)
        member.is_admin = True
        session.flush()
        return member_principal(member, session.get_one(Tenant, owner.tenant_id))


def _owner(live: Portal) -> Principal:
    name = uuid.uuid4().hex
    with live.services.database.transaction() as session:
        return create_tenant(session, name=name, email=f"{name}@example.org", password_hash="x", time_zone="UTC")


def wait_until(is_so: Callable[[], bool], *, seconds: float = 10) -> None:
    """Returns as soon as `is_so()`; fails when it never is."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def stored_job(live: Portal, job_id: str) -> Job | None:
    """The job's row, whoever owns it."""
    with live.services.database.reading() as session:
        return session.get(Job, job_id)


def stored_pages(live: Portal, job_id: str) -> list[Page]:
    """The rows of the job's pages, in order."""
    with live.services.database.reading() as session:
        return list(session.scalars(select(Page).where(Page.job_id == job_id).order_by(Page.position)))


def usage_of(live: Portal, job_id: str) -> list[tuple[str, int]]:
    """(reason, charged pages) of each page of the job that ended."""
    with live.services.database.reading() as session:
        return page_ends(session, job_id)


def assert_problem(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The reply is a whole problem of this status and code, as /docs lists it; gives its body."""
    assert REFUSALS[code].status == status
    body: dict[str, Any] = reply.json()
    assert (reply.status_code, body["code"]) == (status, code), reply.text
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert body["status"] == status
    assert body["type"] == f"/docs#error-{code}"
    assert body["request_id"] == reply.headers["X-Request-Id"]
    for name in ("title", "detail", "remedy"):
        assert body[name], name
    return body


def incoming_files(live: Portal) -> list[Path]:
    """What lies in the folder of uploads under way."""
    return list((live.services.settings.store.data_dir / "incoming").iterdir())


def png(text: str = "Total 9.00") -> bytes:
    """A small page as a PNG."""
    image = Image.new("RGB", (200, 100), "white")
    ImageDraw.Draw(image).text((10, 10), text, fill="black")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def pdf(pages: int = 1) -> bytes:
    """A PDF of small pages."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(100, 60))
    for number in range(1, pages + 1):
        canvas.drawString(10, 30, f"Page {number}")
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


@contextlib.contextmanager
def in_trouble(live: Portal, words: str) -> Iterator[None]:
    """As the engine's watch finds it, whether it looks meanwhile or not."""
    live.engine.trouble = words
    live.services.jobs.engines.mark(live.engine, words)
    try:
        yield
    finally:
        live.engine.trouble = None
        live.services.jobs.engines.mark(live.engine, None)
