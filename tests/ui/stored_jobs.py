"""Finished jobs with pages of our own making, written straight into a running portal's database and storage.

So a browser test has the tables, scores and tilts that it needs at once, and a benchmark its 2,000 boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models import DocumentRow, Job, Member, Page
from models.base import now
from portal.db import Database
from portal.documents.storage import Storage
from portal.domain import FieldSpec, Task, TaskPrompt
from portal.engine.fields.matcher import from_page
from portal.engine.markdown import to_markdown
from portal.jobs.claims import prompt_to_json
from portal.page_text import Block, FieldValue, Line, PageText, Quad
from portal.results.serial import field_to_json, page_text_from_json, page_text_to_json

CHECK_BELOW = 0.9


def page_of(
    rows: Sequence[str | Sequence[str]],
    *,
    doubtful: Sequence[str] = (),
    skew_degrees: float = 0.0,
    has_scores: bool = True,
    size: tuple[int, int] = (800, 1000),
) -> PageText:
    """A page of rows from top to bottom: a string is a line of its own block, a sequence of strings a table's row.

    Lines in `doubtful` have a score that is too low; on a skewed page each line has a quad.
    """
    lines: list[Line] = []
    blocks: list[Block] = []
    for at, row in enumerate(rows):
        cells = [row] if isinstance(row, str) else list(row)
        indices = range(len(lines), len(lines) + len(cells))
        lines += [_line(text, at, column, doubtful, skew_degrees, has_scores) for column, text in enumerate(cells)]
        written = tuple((index,) for index in indices)
        if not isinstance(row, str) and blocks and blocks[-1].kind == "table":
            blocks[-1] = Block("table", (*blocks[-1].rows, written))
        else:
            blocks.append(Block("text" if isinstance(row, str) else "table", (written,)))
    return PageText(
        *size,
        tuple(lines),
        tuple(blocks),
        to_markdown(lines, blocks),
        confidence=0.95 if has_scores else None,
        skew_degrees=skew_degrees,
        check_below=CHECK_BELOW if has_scores else None,
    )


def _line(text: str, row: int, column: int, doubtful: Sequence[str], skew_degrees: float, has_scores: bool) -> Line:
    x0, y0 = 60 + 180 * column, 60 + 40 * row
    x1, y1 = x0 + 12 * len(text) + 20, y0 + 26
    score = (0.6 if text in doubtful else 0.99) if has_scores else None
    quad: Quad | None = (x0, y0, x1, y0 + 9.0, x1, y1 + 9.0, x0, y1) if skew_degrees else None
    return Line(text, (x0, y0, x1, y1 + (9 if quad else 0)), score, quad)


def store_job(
    data_dir: Path, email: str, pages: Sequence[PageText | None], *, file_name: str = "report.pdf", state: str = ""
) -> str:
    """The id of a job of these pages (None: a page that still waits), owned by the member with that e-mail."""
    database = Database(f"sqlite:///{data_dir / 'portal.db'}")
    storage = Storage(data_dir)
    try:
        with database.transaction() as session:
            member = session.scalars(select(Member).where(Member.email == email)).one()
            document = _document(member, file_name, len(pages))
            job = _job(member, len(pages), state or ("running" if None in pages else "succeeded"))
            session.add_all([document, job])
            session.flush()
            session.add_all(_page(job, document, at, text) for at, text in enumerate(pages, start=1))
            place = (member.tenant_id, document.id)
            job_id = job.id
        for at, text in enumerate(pages, start=1):
            if text is not None:
                _draw(storage.page_view_path(*place, at), text)
    finally:
        database.dispose()
    return job_id


def ask_fields(
    data_dir: Path, job_id: str, specs: Sequence[FieldSpec], *, values: Sequence[FieldValue] | None = None
) -> None:
    """Makes the stored job one of the task fields, with these values or those that the matcher finds on its pages."""
    database = Database(f"sqlite:///{data_dir / 'portal.db'}")
    try:
        with database.transaction() as session:
            job = session.scalars(select(Job).where(Job.id == job_id)).one()
            job.task, job.prompt = "fields", prompt_to_json(TaskPrompt(Task.FIELDS, tuple(specs)))
            for page in session.scalars(select(Page).where(Page.job_id == job_id)):
                found = values or from_page(page_text_from_json(page.result or {}), specs)
                page.fields = [field_to_json(value) for value in found]
    finally:
        database.dispose()


def finish_page(data_dir: Path, job_id: str, position: int, text: PageText) -> None:
    """Stores the text of a page that waited, as the dispatcher would."""
    database = Database(f"sqlite:///{data_dir / 'portal.db'}")
    try:
        with database.transaction() as session:
            _finish(session, job_id, position, text)
    finally:
        database.dispose()


def _finish(session: Session, job_id: str, position: int, text: PageText) -> None:
    values = {"state": "succeeded", "result": page_text_to_json(text), "lines_to_check": text.lines_to_check}
    session.execute(update(Page).where(Page.job_id == job_id, Page.position == position).values(**values))


def _document(member: Member, file_name: str, pages: int) -> DocumentRow:
    return DocumentRow(
        tenant_id=member.tenant_id,
        member_id=member.id,
        file_name=file_name,
        media_type="application/pdf",
        byte_size=320_000,
        sha256="0" * 64,
        page_count=pages,
    )


def _job(member: Member, pages: int, state: str) -> Job:
    return Job(
        tenant_id=member.tenant_id,
        member_id=member.id,
        task="extract",
        engine="embedded",
        engine_profile="1",
        state=state,
        page_count=pages,
        started_at=now(),
        finished_at=None if state == "running" else now(),
    )


def _page(job: Job, document: DocumentRow, at: int, text: PageText | None) -> Page:
    return Page(
        tenant_id=job.tenant_id,
        job_id=job.id,
        document_id=document.id,
        position=at,
        number=at,
        # 'running' and claimed by nobody alive: the dispatcher neither starts nor recovers it while it runs itself.
        state="running" if text is None else "succeeded",
        claimed_by="a test" if text is None else None,
        is_blank=text is not None and text.is_blank,
        result=None if text is None else page_text_to_json(text),
        lines_to_check=None if text is None else text.lines_to_check,
    )


def _draw(target: Path, text: PageText) -> None:
    image = Image.new("RGB", (text.width_px, text.height_px), "white")
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=20)
    for line in text.lines:
        if line.box is not None:
            pen.text(line.box[:2], line.text, font=font, fill="black")
    target.parent.mkdir(parents=True, exist_ok=True)
    image.save(target, "JPEG")
