"""The audit log as CSV, for both HTTP edges; that it was taken away is an entry itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.responses import StreamingResponse

from models import AuditEntry
from models.base import now
from portal import audit_log
from portal.audit_log import Filters
from portal.db import Database
from portal.domain import Principal
from portal.errors import InvalidRequest
from portal.http.csv_lines import Cell, csv_lines
from portal.http.downloads import download_headers

FILTERS = ("since", "until", "actor", "action", "target", "tenant", "result", "request_id", "before")
_HEADER = (
    *("time", "actor", "action", "target", "tenant_id", "result", "address"),
    *("request_id", "before", "after", "details", "id"),
)


def audit_csv(database: Database, reader: Principal, filters: Filters) -> StreamingResponse:
    """All entries that the filters leave, newest first, as a download. Raises InvalidRequest."""
    with database.transaction() as session:
        audit_log.record_export(session, reader, filters)
    name = f"audit-{now():%Y-%m-%d}.csv"
    lines = csv_lines(_HEADER, _rows(database, reader, filters))
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=download_headers(name))


def filters_of(asked: Mapping[str, str]) -> Filters:
    """The filters of an address, as the Admin page writes them; moments without a zone are UTC.

    Raises InvalidRequest.
    """
    texts = {name: asked.get(name, "").strip() or None for name in FILTERS if name not in ("since", "until")}
    return Filters(since=moment_of(asked.get("since", "")), until=moment_of(asked.get("until", "")), **texts)


def moment_of(written: str) -> datetime | None:
    """A moment as `<input type="datetime-local">` writes it, taken as UTC. Raises InvalidRequest."""
    if not written:
        return None
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise InvalidRequest("This is not a moment.", remedy="Write it like 2026-12-24T18:00.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _rows(database: Database, reader: Principal, filters: Filters) -> Iterator[tuple[Cell, ...]]:
    with database.reading() as session:
        for entry in audit_log.read_all(session, reader, filters):
            yield _row(entry)


def _row(entry: AuditEntry) -> tuple[Cell, ...]:
    return (
        entry.at.isoformat(timespec="milliseconds"),
        entry.actor,
        entry.action,
        entry.target,
        entry.tenant_id,
        entry.result,
        entry.address,
        entry.request_id,
        _json(entry.before),
        _json(entry.after),
        _json(entry.details),
        entry.id,
    )


def _json(values: dict[str, Any] | None) -> str | None:
    return json.dumps(values, ensure_ascii=False, sort_keys=True) if values else None
