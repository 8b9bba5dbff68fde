"""add_member_last_seen

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import models.base

revision = "b7d4e19c52a6"
down_revision = "91b3d6e0f7a4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Without batch: a plain ADD COLUMN rebuilds nothing, and other tables refer to this one.
    op.add_column("members", sa.Column("last_seen_at", models.base.UTCDateTime(timezone=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("members", schema=None) as batch_op:
        batch_op.drop_column("last_seen_at")
