"""add_unique_folded_tenant_names

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.

One tenant for a name, whatever its case.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "c7126ae08b34"
down_revision = "b90e4d7215fa"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("tenants", schema=None) as batch_op:
        batch_op.alter_column("name_folded", existing_type=sa.String(length=400), nullable=False)
        batch_op.create_unique_constraint(batch_op.f("uq_tenants_name_folded"), ["name_folded"])


def downgrade() -> None:
    with op.batch_alter_table("tenants", schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f("uq_tenants_name_folded"), type_="unique")
        batch_op.alter_column("name_folded", existing_type=sa.String(length=400), nullable=True)
