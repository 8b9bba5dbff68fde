"""add_reservation_holder

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "d2c95a7e41b0"
down_revision = "1098c6a63bb6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("reservations", schema=None) as batch_op:
        batch_op.add_column(sa.Column("holder", sa.String(length=20), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("reservations", schema=None) as batch_op:
        batch_op.drop_column("holder")
