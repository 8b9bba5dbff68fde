"""add_history_and_rotation

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "fb41ddb5fa9e"
down_revision = "c58499d9da7b"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "search_texts",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("page_id", sa.String(length=40), nullable=True),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_search_texts_job_id_jobs")),
        sa.ForeignKeyConstraint(["page_id"], ["pages.id"], name=op.f("fk_search_texts_page_id_pages")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_search_texts_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_search_texts")),
        sa.UniqueConstraint("page_id", name=op.f("uq_search_texts_page_id")),
    )
    with op.batch_alter_table("search_texts", schema=None) as batch_op:
        batch_op.create_index("ix_search_texts_tenant_id_job_id", ["tenant_id", "job_id"], unique=False)

    with op.batch_alter_table("api_keys", schema=None) as batch_op:
        batch_op.add_column(sa.Column("replaced_by", sa.String(length=40), nullable=True))

    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("looked_at", sa.DateTime(timezone=True), nullable=True))

    with op.batch_alter_table("pages", schema=None) as batch_op:
        batch_op.add_column(sa.Column("attempts_before_retry", sa.Integer(), server_default="0", nullable=False))

    with op.batch_alter_table("usage_entries", schema=None) as batch_op:
        batch_op.create_index("ix_usage_entries_tenant_id_job_id", ["tenant_id", "job_id"], unique=False)


def downgrade() -> None:
    # Not as batch operations: those rebuild the table, which SQLite refuses while rows of others point at it.
    op.drop_index("ix_usage_entries_tenant_id_job_id", "usage_entries")
    op.drop_column("pages", "attempts_before_retry")
    op.drop_column("jobs", "looked_at")
    op.drop_column("api_keys", "replaced_by")
    op.drop_table("search_texts")
