"""add_page_wait_until

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "7c41d0b95e2a"
down_revision = "d2c95a7e41b0"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("pages", schema=None) as batch_op:
        batch_op.add_column(sa.Column("wait_until", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("pages", schema=None) as batch_op:
        batch_op.drop_column("wait_until")
