"""A whole jobs context over a real database, storage and sandbox, with an engine that answers by script."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from sqlalchemy import text

from models import ApiKey, Base, Member, Tenant
from models.base import now
from portal.db import Database
from portal.documents.intake import Upload
from portal.documents.sandbox import Sandbox
from portal.documents.storage import Storage
from portal.domain import Principal, Role, Scope
from portal.engine.fakes import FakeEngine
from portal.jobs.context import Engines, JobContext
from portal.jobs.dispatch import Dispatcher
from portal.jobs.notices import Notices
from portal.jobs.queries import JobView, wait
from portal.jobs.submission import Order, submit
from portal.settings import AccountSettings, EngineSettings, IntakeSettings, ServerSettings, Settings, StoreSettings


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """One warm sandbox for all tests of a session."""
    limits = IntakeSettings()
    children = Sandbox(limits)
    yield children
    children.close()


@dataclass(frozen=True)
class Bench:
    """A context, its engine and its people: alice owns tenant acme, bob is her member, charlie and dora own others."""

    context: JobContext
    engine: FakeEngine
    alice: Principal
    bob: Principal
    charlie: Principal
    dora: Principal
    folder: Path

    def upload(self, name: str = "scan.png", *, pages: int = 1) -> Upload:
        """A page with text, or a TIFF of several."""
        path = self.folder / f"upload-{secrets.token_hex(8)}"
        path.write_bytes(page_bytes(pages, words=secrets.token_hex(4)))
        return Upload(name, path)

    def submit(self, who: Principal | None = None, *, pages: int = 1, order: Order | None = None) -> JobView:
        """Submits one file of that many pages."""
        name = "scan.png" if pages == 1 else "scan.tiff"
        return submit(self.context, who or self.alice, [self.upload(name, pages=pages)], order or Order())

    def run(self, *jobs: JobView, seconds: float = 20) -> list[JobView]:
        """Dispatches as a portal that has just started, until the jobs are over, and gives them as they are then."""
        context = replace(self.context)  # with gates of its own: each is bound to the event loop that first waits at it

        async def dispatched() -> list[JobView]:
            async with dispatching(context):
                return [await wait(context, self.tenant_of(job), job.id, seconds) for job in jobs]

        return asyncio.run(dispatched())

    def tenant_of(self, job: JobView) -> str:
        """Whose job it is."""
        from models import Job

        with self.context.database.reading() as session:
            return session.get_one(Job, job.id).tenant_id


@contextlib.asynccontextmanager
async def dispatching(context: JobContext) -> AsyncIterator[None]:
    """The dispatcher of a running portal, stopped in good order at the end."""
    task = asyncio.create_task(Dispatcher(context).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def page_bytes(pages: int = 1, words: str = "page") -> bytes:
    """A small PNG page, or a TIFF of `pages` frames; other words make other bytes, so that nothing is a re-run."""
    frames = [_page(f"{words} {number}") for number in range(1, pages + 1)]
    stream = io.BytesIO()
    if pages == 1:
        frames[0].save(stream, "PNG")
    else:
        frames[0].save(stream, "TIFF", save_all=True, append_images=frames[1:])
    return stream.getvalue()


def _page(words: str) -> Image.Image:
    image = Image.new("RGB", (200, 100), "white")
    ImageDraw.Draw(image).text((20, 40), words, fill="black")
    return image


def make_bench(database: Database, sandbox: Sandbox, folder: Path, engines: Sequence[FakeEngine]) -> Bench:
    """The bench over any database and engines."""
    settings = Settings(
        ServerSettings(),
        StoreSettings(data_dir=folder / "data"),
        AccountSettings(),
        IntakeSettings(),
        EngineSettings(page_seconds=2, max_backlog_pages=200),
    )
    context = JobContext(settings, database, Storage(folder / "data"), sandbox, Engines(engines), Notices())
    acme, other, third = Tenant(name="acme"), Tenant(name="other"), Tenant(name="third")
    with database.transaction() as session:
        session.add_all([acme, other, third])
        session.flush()
        alice = _member(session, acme, "alice@acme.example", Role.OWNER)
        bob = _member(session, acme, "bob@acme.example", Role.MEMBER)
        charlie = _member(session, other, "charlie@other.example", Role.OWNER)
        dora = _member(session, third, "dora@third.example", Role.OWNER)
    return Bench(context, engines[0], alice, bob, charlie, dora, folder)


def _member(session: object, tenant: Tenant, email: str, role: Role) -> Principal:
    member = Member(tenant_id=tenant.id, email=email, password_hash="-", role=role)
    session.add(member)  # type: ignore[attr-defined]
    session.flush()  # type: ignore[attr-defined]
    return Principal(
        tenant_id=tenant.id,
        tenant_name=tenant.name,
        member_id=member.id,
        email=email,
        role=role,
        is_admin=False,
        scopes=frozenset({Scope.OCR, Scope.READ}),
    )


def with_ended_key(bench: Bench, end: str) -> Principal:
    """Alice by a key that was proven, and has ended since; `end` is revoked_at or expires_at."""
    with bench.context.database.transaction() as session:
        key = ApiKey(tenant_id=bench.alice.tenant_id, name="k", prefix=secrets.token_hex(5), key_hash="-")
        key.pepper_id, key.scopes = "-", "ocr"
        setattr(key, end, now())
        session.add(key)
        session.flush()
        return replace(bench.alice, api_key_id=key.id)


def left_of(bench: Bench, words: str) -> list[str]:
    """Where the words still stand: files below the data folder and the database's own, and tables."""
    found = [str(path) for path in bench.folder.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]
    with bench.context.database.reading() as session:
        for table in Base.metadata.sorted_tables:
            rows = session.execute(text(f"SELECT * FROM {table.name}")).all()
            found += [table.name for row in rows if words in repr(tuple(row))]
    return found


@pytest.fixture
def bench(database: Database, sandbox: Sandbox, tmp_path: Path) -> Bench:
    """On SQLite and on Postgres."""
    return make_bench(database, sandbox, tmp_path, [FakeEngine()])


@pytest.fixture
def sqlite_bench(sqlite_database: Database, sandbox: Sandbox, tmp_path: Path) -> Bench:
    """On SQLite only."""
    return make_bench(sqlite_database, sandbox, tmp_path, [FakeEngine()])
