"""fill_search_texts

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.

Makes the jobs that were there before searchable: their file names, and what was read on their pages.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0c6b1a7f2d94"
down_revision = "fb41ddb5fa9e"
branch_labels = None
depends_on = None

_BATCH = 200
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_documents = sa.table("documents", sa.column("id"), sa.column("file_name"))
_pages = sa.table(
    "pages",
    *(sa.column(name) for name in ("id", "tenant_id", "job_id", "document_id", "state", "position")),
    sa.column("result", sa.JSON(none_as_null=True)),
)
_search_texts = sa.table(
    "search_texts", *(sa.column(name) for name in ("id", "tenant_id", "job_id", "page_id", "folded"))
)
_jobs = sa.table("jobs", sa.column("id"), sa.column("tenant_id"))


def upgrade() -> None:
    connection = op.get_bind()
    for jobs in _batches(connection, sa.select(_jobs.c.id, _jobs.c.tenant_id), _jobs.c.id):
        _insert(connection, _names(connection, jobs))
    read = sa.select(_pages.c.id, _pages.c.tenant_id, _pages.c.job_id).where(_pages.c.state == "succeeded")
    for pages in _batches(connection, read, _pages.c.id):
        texts = _texts(connection, [page.id for page in pages])
        _insert(connection, ((page.tenant_id, page.job_id, page.id, texts.get(page.id) or "") for page in pages))


def downgrade() -> None:
    op.execute(_search_texts.delete())


def _batches(connection: sa.Connection, rows: sa.Select[Any], key: sa.ColumnClause[Any]) -> Iterator[list[Any]]:
    last = ""
    while found := list(connection.execute(rows.where(key > last).order_by(key).limit(_BATCH))):
        yield found
        last = found[-1].id


def _texts(connection: sa.Connection, page_ids: list[str]) -> dict[str, str | None]:
    """Page → its text, taken out of the result by the database: the result itself is many times as large."""
    has_nul = sa.cast(_pages.c.result, sa.Text).contains("u0000")  # SQLite would end the text there
    taken_out = sa.select(_pages.c.id, _pages.c.result["text"].as_string()).where(_pages.c.id.in_(page_ids), ~has_nul)
    try:
        with connection.begin_nested():
            texts = {page_id: text for page_id, text in connection.execute(taken_out)}
    except sa.exc.DBAPIError:  # half a surrogate pair, which JSON can name and no database's text can hold
        texts = {}
    missing = [page_id for page_id in page_ids if page_id not in texts]
    results = connection.execute(sa.select(_pages.c.id, _pages.c.result).where(_pages.c.id.in_(missing)))
    return texts | {page_id: (result or {}).get("text") for page_id, result in results}


def _names(connection: sa.Connection, jobs: list[Any]) -> Iterator[tuple[str, str, None, str]]:
    named = connection.execute(
        sa.select(_pages.c.job_id, _documents.c.file_name)
        .join(_documents, _documents.c.id == _pages.c.document_id)
        .where(_pages.c.job_id.in_([job.id for job in jobs]))
        .group_by(_pages.c.job_id, _documents.c.id, _documents.c.file_name)
        .order_by(sa.func.min(_pages.c.position))
    )
    names: dict[str, list[str]] = {}
    for job_id, file_name in named:
        names.setdefault(job_id, []).append(file_name)
    for job in jobs:
        yield job.tenant_id, job.id, None, "\n".join(names.get(job.id, ()))


def _insert(connection: sa.Connection, texts: Iterable[tuple[str, str, str | None, str]]) -> None:
    rows = [
        {
            "id": f"sea_{secrets.token_hex(12)}",
            "tenant_id": tenant_id,
            "job_id": job_id,
            "page_id": page_id,
            "folded": _folded(text),
        }
        for tenant_id, job_id, page_id, text in texts
        if text.strip()
    ]
    if rows:
        connection.execute(_search_texts.insert(), rows)


def _folded(text: str) -> str:
    """As the program folds it at the time of this migration; not imported, since a migration stays as it is."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(_UNSTORABLE.sub("\ufffd", plain).split())
