"""add_folded_tenant_names

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.

The name as names are compared; empty until the next migration fills it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "a3f58c20d617"
down_revision = "7d1f0c3a52be"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("tenants", schema=None) as batch_op:
        batch_op.add_column(sa.Column("name_folded", sa.String(length=400), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("tenants", schema=None) as batch_op:
        batch_op.drop_column("name_folded")
