"""add_samples

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "5e0a7c41d9b2"
down_revision = "0c6b1a7f2d94"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("is_sample", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_column("is_sample")
