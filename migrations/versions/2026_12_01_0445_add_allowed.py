"""add_allowed: of notices and refusals, what the limit was

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "b83e5f20c714"
down_revision = "7c41d0b95e2a"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("usage_notices", "refusal_counts"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.add_column(sa.Column("allowed", sa.Integer(), nullable=True))


def downgrade() -> None:
    for table in ("refusal_counts", "usage_notices"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.drop_column("allowed")
