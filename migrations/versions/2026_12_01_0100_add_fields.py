"""add_fields

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1098c6a63bb6"
down_revision = "b7d4e19c52a6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "field_templates",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("rows", sa.JSON(), nullable=False),
        sa.Column("member_id", sa.String(length=40), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["member_id"], ["members.id"], name=op.f("fk_field_templates_member_id_members")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_field_templates_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_field_templates")),
        sa.UniqueConstraint("tenant_id", "name", "version", name=op.f("uq_field_templates_tenant_id_name_version")),
    )
    with op.batch_alter_table("pages", schema=None) as batch_op:
        batch_op.add_column(sa.Column("fields", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    # Not as batch operations: those rebuild the table, which SQLite refuses while rows of others point at it.
    op.drop_column("pages", "fields")
    op.drop_table("field_templates")
