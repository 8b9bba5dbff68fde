"""add_plans_and_ledger

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

_IMMUTABLE = ("audit_entries", "deletion_records", "ledger_entries")

revision = "c4adfc582671"
down_revision = "c7126ae08b34"
branch_labels = None
depends_on = None


def upgrade() -> None:  # noqa: PLR0915 - a list of tables
    op.create_table(
        "deletion_records",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("target", sa.String(length=40), nullable=False),
        sa.Column("reason", sa.String(length=10), nullable=False),
        sa.Column("actor", sa.String(length=254), nullable=False),
        sa.Column("gone", sa.JSON(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind in ('job', 'document', 'tenant')", name=op.f("ck_deletion_records_kind")),
        sa.CheckConstraint("reason in ('asked', 'retention', 'admin')", name=op.f("ck_deletion_records_reason")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deletion_records")),
    )
    with op.batch_alter_table("deletion_records", schema=None) as batch_op:
        batch_op.create_index("ix_deletion_records_tenant_id_at", ["tenant_id", "at"], unique=False)

    op.create_table(
        "ledger_entries",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("member_id", sa.String(length=40), nullable=True),
        sa.Column("api_key_id", sa.String(length=40), nullable=True),
        sa.Column("reservation_id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=True),
        sa.Column("page_id", sa.String(length=40), nullable=True),
        sa.Column("task", sa.String(length=20), nullable=False),
        sa.Column("engine", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("reason", sa.String(length=30), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind in ('reserved', 'posted', 'returned')", name=op.f("ck_ledger_entries_kind")),
        sa.CheckConstraint("pages >= 0", name=op.f("ck_ledger_entries_pages")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_entries")),
        sa.UniqueConstraint("reservation_id", "page_id", name=op.f("uq_ledger_entries_reservation_id_page_id")),
    )
    with op.batch_alter_table("ledger_entries", schema=None) as batch_op:
        batch_op.create_index("ix_ledger_entries_tenant_id_created_at", ["tenant_id", "created_at"], unique=False)
        batch_op.create_index("ix_ledger_entries_tenant_id_day", ["tenant_id", "day"], unique=False)
        batch_op.create_index("ix_ledger_entries_tenant_id_job_id", ["tenant_id", "job_id"], unique=False)
        batch_op.create_index(
            "uq_ledger_entries_posted_page",
            ["page_id"],
            unique=True,
            sqlite_where=sa.text("kind = 'posted'"),
            postgresql_where=sa.text("kind = 'posted'"),
        )

    op.create_table(
        "plans",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("is_default", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("pages_per_day", sa.Integer(), nullable=True),
        sa.Column("pages_per_month", sa.Integer(), nullable=True),
        sa.Column("requests_per_minute", sa.Integer(), nullable=True),
        sa.Column("pages_in_flight", sa.Integer(), nullable=True),
        sa.Column("uncharged_pages_per_day", sa.Integer(), nullable=True),
        sa.Column("max_file_bytes", sa.BigInteger(), nullable=True),
        sa.Column("max_document_pages", sa.Integer(), nullable=True),
        sa.Column("retention_days", sa.Integer(), nullable=True),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("weight > 0", name=op.f("ck_plans_weight")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
        sa.UniqueConstraint("name", name=op.f("uq_plans_name")),
    )
    with op.batch_alter_table("plans", schema=None) as batch_op:
        batch_op.create_index(
            "uq_plans_is_default",
            ["is_default"],
            unique=True,
            sqlite_where=sa.text("is_default"),
            postgresql_where=sa.text("is_default"),
        )

    op.create_table(
        "portal_options",
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("value", sa.String(length=254), nullable=False),
        sa.Column("set_by", sa.String(length=254), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_portal_options")),
    )
    op.create_table(
        "invites",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant_id", sa.String(length=40), nullable=True),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.Column("note", sa.String(length=254), nullable=True),
        sa.Column("created_by", sa.String(length=254), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("used_by", sa.String(length=254), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role in ('owner', 'member')", name=op.f("ck_invites_role")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_invites_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invites")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_invites_token_hash")),
    )
    with op.batch_alter_table("invites", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_invites_tenant_id"), ["tenant_id"], unique=False)

    op.create_table(
        "limit_changes",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("reason", sa.String(length=300), nullable=True),
        sa.Column("changed_by", sa.String(length=254), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("undone_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_limit_changes_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_limit_changes")),
    )
    with op.batch_alter_table("limit_changes", schema=None) as batch_op:
        batch_op.create_index("ix_limit_changes_tenant_id_changed_at", ["tenant_id", "changed_at"], unique=False)

    op.create_table(
        "refusal_counts",
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("code", sa.String(length=60), nullable=False),
        sa.Column("limit_name", sa.String(length=40), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_refusal_counts_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("tenant_id", "day", "code", "limit_name", name=op.f("pk_refusal_counts")),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("member_id", sa.String(length=40), nullable=True),
        sa.Column("api_key_id", sa.String(length=40), nullable=True),
        sa.Column("job_id", sa.String(length=40), nullable=True),
        sa.Column("task", sa.String(length=20), nullable=False),
        sa.Column("engine", sa.String(length=100), nullable=False),
        sa.Column("reason", sa.String(length=20), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=False),
        sa.Column("posted", sa.Integer(), nullable=False),
        sa.Column("returned", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "posted >= 0 and returned >= 0 and posted + returned <= pages", name=op.f("ck_reservations_balance")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_reservations_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
    )
    with op.batch_alter_table("reservations", schema=None) as batch_op:
        batch_op.create_index(
            "ix_reservations_pending",
            ["created_at"],
            unique=False,
            sqlite_where=sa.text("closed_at IS NULL"),
            postgresql_where=sa.text("closed_at IS NULL"),
        )
        batch_op.create_index("ix_reservations_tenant_id_created_at", ["tenant_id", "created_at"], unique=False)
        batch_op.create_index("ix_reservations_tenant_id_job_id", ["tenant_id", "job_id"], unique=False)

    op.create_table(
        "tenant_limits",
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.String(length=300), nullable=True),
        sa.Column("set_by", sa.String(length=254), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_tenant_limits_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_tenant_limits")),
    )
    op.create_table(
        "tenant_usage",
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("day_pages", sa.Integer(), nullable=False),
        sa.Column("day_posted", sa.Integer(), nullable=False),
        sa.Column("uncharged_day", sa.String(length=10), nullable=False),
        sa.Column("uncharged_pages", sa.Integer(), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("month_pages", sa.Integer(), nullable=False),
        sa.Column("month_posted", sa.Integer(), nullable=False),
        sa.Column("pending_pages", sa.Integer(), nullable=False),
        sa.Column("window", sa.Integer(), nullable=False),
        sa.Column("window_requests", sa.Integer(), nullable=False),
        sa.Column("previous_requests", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_tenant_usage_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_tenant_usage")),
    )
    op.create_table(
        "usage_notices",
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("limit_name", sa.String(length=40), nullable=False),
        sa.Column("period", sa.String(length=10), nullable=False),
        sa.Column("percent", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_usage_notices_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("tenant_id", "limit_name", "period", "percent", name=op.f("pk_usage_notices")),
    )
    with op.batch_alter_table("usage_notices", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_usage_notices_created_at"), ["created_at"], unique=False)

    op.create_table(
        "quota_requests",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("member_id", sa.String(length=40), nullable=True),
        sa.Column("limit_name", sa.String(length=40), nullable=False),
        sa.Column("wanted", sa.Double(), nullable=True),
        sa.Column("reason", sa.String(length=1000), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("answer", sa.String(length=1000), nullable=True),
        sa.Column("decided_by", sa.String(length=254), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("state in ('open', 'granted', 'declined')", name=op.f("ck_quota_requests_state")),
        sa.ForeignKeyConstraint(["member_id"], ["members.id"], name=op.f("fk_quota_requests_member_id_members")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_quota_requests_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quota_requests")),
    )
    with op.batch_alter_table("quota_requests", schema=None) as batch_op:
        batch_op.create_index("ix_quota_requests_state_created_at", ["state", "created_at"], unique=False)
        batch_op.create_index("ix_quota_requests_tenant_id", ["tenant_id"], unique=False)

    with op.batch_alter_table("audit_entries", schema=None) as batch_op:
        batch_op.add_column(sa.Column("result", sa.String(length=10), server_default="ok", nullable=False))
        batch_op.add_column(sa.Column("request_id", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("before", sa.JSON(none_as_null=True), nullable=True))
        batch_op.add_column(sa.Column("after", sa.JSON(none_as_null=True), nullable=True))
        batch_op.create_index("ix_audit_entries_action_at", ["action", "at"], unique=False)

    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("is_fresh", sa.Boolean(), server_default=sa.false(), nullable=False))

    with op.batch_alter_table("members", schema=None) as batch_op:
        batch_op.add_column(sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.drop_constraint(batch_op.f("uq_members_email"), type_="unique")
        batch_op.create_index(
            "uq_members_present_email",
            ["email"],
            unique=True,
            sqlite_where=sa.text("removed_at IS NULL"),
            postgresql_where=sa.text("removed_at IS NULL"),
        )

    with op.batch_alter_table("pages", schema=None) as batch_op:
        batch_op.add_column(sa.Column("reservation_id", sa.String(length=40), nullable=True))
        batch_op.add_column(sa.Column("rerun_key", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("reused_page_id", sa.String(length=40), nullable=True))
        batch_op.create_index("ix_pages_tenant_id_rerun_key", ["tenant_id", "rerun_key"], unique=False)

    with op.batch_alter_table("tenants", schema=None) as batch_op:
        batch_op.add_column(sa.Column("plan_id", sa.String(length=40), nullable=True))
        batch_op.add_column(sa.Column("time_zone", sa.String(length=64), server_default="UTC", nullable=False))
        batch_op.add_column(sa.Column("state", sa.String(length=12), server_default="active", nullable=False))
        batch_op.add_column(sa.Column("state_reason", sa.String(length=300), nullable=True))
        batch_op.create_foreign_key(batch_op.f("fk_tenants_plan_id_plans"), "plans", ["plan_id"], ["id"])
        batch_op.create_check_constraint(
            batch_op.f("ck_tenants_state"), "state in ('active', 'no_new_jobs', 'suspended')"
        )

    _add_triggers()


def downgrade() -> None:  # noqa: PLR0915 - a list of tables
    _drop_triggers()
    with op.batch_alter_table("tenants", schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_tenants_plan_id_plans"), type_="foreignkey")
        batch_op.drop_constraint(batch_op.f("ck_tenants_state"), type_="check")
        batch_op.drop_column("state_reason")
        batch_op.drop_column("state")
        batch_op.drop_column("time_zone")
        batch_op.drop_column("plan_id")

    with op.batch_alter_table("pages", schema=None) as batch_op:
        batch_op.drop_index("ix_pages_tenant_id_rerun_key")
        batch_op.drop_column("reused_page_id")
        batch_op.drop_column("rerun_key")
        batch_op.drop_column("reservation_id")

    with op.batch_alter_table("members", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_members_present_email",
            sqlite_where=sa.text("removed_at IS NULL"),
            postgresql_where=sa.text("removed_at IS NULL"),
        )
        batch_op.create_unique_constraint(batch_op.f("uq_members_email"), ["email"])
        batch_op.drop_column("removed_at")

    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_column("is_fresh")

    with op.batch_alter_table("audit_entries", schema=None) as batch_op:
        batch_op.drop_index("ix_audit_entries_action_at")
        batch_op.drop_column("after")
        batch_op.drop_column("before")
        batch_op.drop_column("request_id")
        batch_op.drop_column("result")

    with op.batch_alter_table("quota_requests", schema=None) as batch_op:
        batch_op.drop_index("ix_quota_requests_tenant_id")
        batch_op.drop_index("ix_quota_requests_state_created_at")

    op.drop_table("quota_requests")
    with op.batch_alter_table("usage_notices", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_usage_notices_created_at"))

    op.drop_table("usage_notices")
    op.drop_table("tenant_usage")
    op.drop_table("tenant_limits")
    with op.batch_alter_table("reservations", schema=None) as batch_op:
        batch_op.drop_index("ix_reservations_tenant_id_job_id")
        batch_op.drop_index("ix_reservations_tenant_id_created_at")
        batch_op.drop_index(
            "ix_reservations_pending",
            sqlite_where=sa.text("closed_at IS NULL"),
            postgresql_where=sa.text("closed_at IS NULL"),
        )

    op.drop_table("reservations")
    op.drop_table("refusal_counts")
    with op.batch_alter_table("limit_changes", schema=None) as batch_op:
        batch_op.drop_index("ix_limit_changes_tenant_id_changed_at")

    op.drop_table("limit_changes")
    with op.batch_alter_table("invites", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_invites_tenant_id"))

    op.drop_table("invites")
    op.drop_table("portal_options")
    with op.batch_alter_table("plans", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_plans_is_default", sqlite_where=sa.text("is_default"), postgresql_where=sa.text("is_default")
        )

    op.drop_table("plans")
    with op.batch_alter_table("ledger_entries", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_ledger_entries_posted_page",
            sqlite_where=sa.text("kind = 'posted'"),
            postgresql_where=sa.text("kind = 'posted'"),
        )
        batch_op.drop_index("ix_ledger_entries_tenant_id_job_id")
        batch_op.drop_index("ix_ledger_entries_tenant_id_day")
        batch_op.drop_index("ix_ledger_entries_tenant_id_created_at")

    op.drop_table("ledger_entries")
    with op.batch_alter_table("deletion_records", schema=None) as batch_op:
        batch_op.drop_index("ix_deletion_records_tenant_id_at")

    op.drop_table("deletion_records")


def _add_triggers() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    if not is_sqlite:
        op.execute(
            "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME; END $$"
        )
    for table in _IMMUTABLE:
        if not is_sqlite:
            op.execute(
                f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
            )
            continue
        for verb in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
            )


def _drop_triggers() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in _IMMUTABLE:
            op.execute(f"DROP TRIGGER {table}_no_update")
            op.execute(f"DROP TRIGGER {table}_no_delete")
        return
    for table in _IMMUTABLE:
        op.execute(f"DROP TRIGGER {table}_no_change ON {table}")
    op.execute("DROP FUNCTION refuse_change()")
