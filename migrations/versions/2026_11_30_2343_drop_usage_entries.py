"""drop_usage_entries

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "91b3d6e0f7a4"
down_revision = "3a7e5c21b9d8"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("usage_entries")


def downgrade() -> None:
    op.create_table(
        "usage_entries",
        sa.Column("id", sa.VARCHAR(length=40), nullable=False),
        sa.Column("tenant_id", sa.VARCHAR(length=40), nullable=False),
        sa.Column("member_id", sa.VARCHAR(length=40), nullable=True),
        sa.Column("api_key_id", sa.VARCHAR(length=40), nullable=True),
        sa.Column("job_id", sa.VARCHAR(length=40), nullable=False),
        sa.Column("page_id", sa.VARCHAR(length=40), nullable=False),
        sa.Column("task", sa.VARCHAR(length=20), nullable=False),
        sa.Column("engine", sa.VARCHAR(length=100), nullable=False),
        sa.Column("outcome", sa.VARCHAR(length=12), nullable=False),
        sa.Column("pages", sa.INTEGER(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "outcome in ('read', 'blank', 'failed', 'truncated')", name=op.f("ck_usage_entries_outcome")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_usage_entries_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_entries")),
        sa.UniqueConstraint("page_id", name=op.f("uq_usage_entries_page_id")),
    )
    with op.batch_alter_table("usage_entries", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_usage_entries_tenant_id_job_id"), ["tenant_id", "job_id"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_usage_entries_tenant_id_created_at"), ["tenant_id", "created_at"], unique=False
        )
