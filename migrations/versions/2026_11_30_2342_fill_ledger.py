"""fill_ledger

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3a7e5c21b9d8"
down_revision = "c4adfc582671"
branch_labels = None
depends_on = None


_RESERVE_JOBS = """
INSERT INTO reservations (id, tenant_id, member_id, api_key_id, job_id, task, engine, reason, day, month,
    pages, posted, returned, created_at, closed_at)
SELECT 'res_' || substr(jobs.id, 5), jobs.tenant_id, jobs.member_id, jobs.api_key_id, jobs.id, jobs.task, jobs.engine,
    'submitted', {day}, {month},
    CASE WHEN jobs.is_sample THEN 0 ELSE (SELECT count(*) FROM pages p WHERE p.job_id = jobs.id) END,
    (SELECT count(*) FROM usage_entries u WHERE u.job_id = jobs.id AND u.pages > 0),
    CASE WHEN jobs.is_sample THEN 0 ELSE
        (SELECT count(*) FROM pages p WHERE p.job_id = jobs.id AND p.state NOT IN ('queued', 'running'))
        - (SELECT count(*) FROM usage_entries u WHERE u.job_id = jobs.id AND u.pages > 0) END,
    jobs.created_at, CASE WHEN jobs.is_sample THEN jobs.created_at
        WHEN jobs.state IN ('queued', 'running') THEN NULL ELSE jobs.finished_at END
FROM jobs
"""
# Of a deleted job only its entries are left.
_RESERVE_DELETED_JOBS = """
INSERT INTO reservations (id, tenant_id, member_id, api_key_id, job_id, task, engine, reason, day, month,
    pages, posted, returned, created_at, closed_at)
SELECT 'res_' || substr(job_id, 5), tenant_id, max(member_id), max(api_key_id), job_id, max(task), max(engine),
    'submitted', min({day}), min({month}), count(*), sum(pages), count(*) - sum(pages), min(created_at), max(created_at)
FROM usage_entries WHERE job_id NOT IN (SELECT id FROM jobs) GROUP BY tenant_id, job_id
"""
_LEDGER = """
INSERT INTO ledger_entries (id, tenant_id, member_id, api_key_id, reservation_id, job_id, page_id, task, engine, kind,
    reason, pages, day, month, created_at)
"""
_LEDGER_RESERVED = (
    _LEDGER
    + """
SELECT 'led_r' || substr(id, 5), tenant_id, member_id, api_key_id, id, job_id, NULL, task, engine, 'reserved', reason,
    pages, day, month, created_at
FROM reservations
"""
)
_LEDGER_ENDED = (
    _LEDGER
    + """
SELECT 'led_e' || substr(u.id, 5), u.tenant_id, u.member_id, u.api_key_id, r.id, u.job_id, u.page_id, u.task, u.engine,
    CASE WHEN u.pages > 0 THEN 'posted' ELSE 'returned' END,
    CASE WHEN u.pages = 0 AND r.pages = 0 THEN 'sample' ELSE u.outcome END,
    CASE WHEN r.pages = 0 THEN 0 ELSE 1 END, r.day, r.month, u.created_at
FROM usage_entries u JOIN reservations r ON r.id = 'res_' || substr(u.job_id, 5)
"""
)
_LEDGER_CANCELLED = (
    _LEDGER
    + """
SELECT 'led_c' || substr(p.id, 5), p.tenant_id, r.member_id, r.api_key_id, r.id, p.job_id, p.id, r.task, r.engine,
    'returned', 'cancelled', CASE WHEN r.pages = 0 THEN 0 ELSE 1 END, r.day, r.month,
    coalesce(p.finished_at, r.created_at)
FROM pages p JOIN reservations r ON r.id = 'res_' || substr(p.job_id, 5)
WHERE p.state NOT IN ('queued', 'running') AND NOT EXISTS (SELECT 1 FROM usage_entries u WHERE u.page_id = p.id)
"""
)
_COUNT = """
INSERT INTO tenant_usage (tenant_id, day, day_pages, day_posted, uncharged_day, uncharged_pages, month, month_pages,
    month_posted, pending_pages, "window", window_requests, previous_requests)
SELECT t.id, t.day,
    coalesce((SELECT sum(pages - returned) FROM reservations r WHERE r.tenant_id = t.id AND r.day = t.day), 0),
    coalesce((SELECT sum(posted) FROM reservations r WHERE r.tenant_id = t.id AND r.day = t.day), 0),
    '', 0, t.month,
    coalesce((SELECT sum(pages - returned) FROM reservations r WHERE r.tenant_id = t.id AND r.month = t.month), 0),
    coalesce((SELECT sum(posted) FROM reservations r WHERE r.tenant_id = t.id AND r.month = t.month), 0),
    coalesce((SELECT sum(pages - posted - returned) FROM reservations r WHERE r.tenant_id = t.id), 0), 0, 0, 0
FROM (SELECT tenants.id, coalesce(max(r.day), '') AS day, coalesce(max(r.month), '') AS month
    FROM tenants LEFT JOIN reservations r ON r.tenant_id = tenants.id GROUP BY tenants.id) t
"""
_TAKE_BACK = """
INSERT INTO usage_entries (id, tenant_id, member_id, api_key_id, job_id, page_id, task, engine, outcome, pages,
    created_at)
SELECT 'use_' || substr(id, 5), tenant_id, member_id, api_key_id, job_id, page_id, task, engine,
    CASE WHEN reason IN ('blank', 'failed', 'truncated') THEN reason ELSE 'read' END,
    CASE WHEN kind = 'posted' THEN 1 ELSE 0 END, created_at
FROM ledger_entries e
WHERE kind IN ('posted', 'returned') AND page_id IS NOT NULL AND job_id IS NOT NULL AND reason <> 'cancelled'
    AND tenant_id IN (SELECT id FROM tenants)
    AND NOT EXISTS (SELECT 1 FROM ledger_entries n WHERE n.page_id = e.page_id AND n.kind IN ('posted', 'returned')
        AND (n.created_at > e.created_at OR (n.created_at = e.created_at AND n.id > e.id)))
"""


def upgrade() -> None:
    for statement in (_RESERVE_JOBS, _RESERVE_DELETED_JOBS):
        table = "jobs." if "FROM jobs\n" in statement else ""
        op.execute(statement.format(day=_cut(f"{table}created_at", 10), month=_cut(f"{table}created_at", 7)))
    op.execute("UPDATE pages SET reservation_id = 'res_' || substr(job_id, 5)")
    for statement in (_LEDGER_RESERVED, _LEDGER_ENDED, _LEDGER_CANCELLED, _COUNT):
        op.execute(statement)


def downgrade() -> None:
    op.execute(_TAKE_BACK)
    op.execute("UPDATE pages SET reservation_id = NULL")
    for table in ("ledger_entries", "reservations", "tenant_usage"):
        _empty(table)


def _cut(column: str, length: int) -> str:
    """The UTC day (10) or month (7) of a point in time, as text."""
    if op.get_bind().dialect.name != "sqlite":
        column = f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
    return f"substr({column}, 1, {length})"


def _empty(table: str) -> None:
    """Takes the rows back although the table refuses it: its triggers are dropped right after."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    if table != "ledger_entries":
        op.execute(sa.text(f"DELETE FROM {table}"))
    elif is_sqlite:
        op.execute("DROP TRIGGER ledger_entries_no_delete")
        op.execute("DELETE FROM ledger_entries")
        op.execute(
            "CREATE TRIGGER ledger_entries_no_delete BEFORE delete ON ledger_entries "
            "BEGIN SELECT RAISE(ABORT, 'rows of ledger_entries are never changed'); END"
        )
    else:
        op.execute("ALTER TABLE ledger_entries DISABLE TRIGGER USER")
        op.execute("DELETE FROM ledger_entries")
        op.execute("ALTER TABLE ledger_entries ENABLE TRIGGER USER")
