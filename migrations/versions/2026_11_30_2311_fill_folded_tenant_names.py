"""fill_folded_tenant_names

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.

Of tenants whose names differ by case only, the oldest has the name to itself from now on. The others keep theirs as it
is written, with their id behind the folded one, so that both stay and no third comes.
"""

from __future__ import annotations

import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "b90e4d7215fa"
down_revision = "a3f58c20d617"
branch_labels = None
depends_on = None

_tenants = sa.table("tenants", *(sa.column(name) for name in ("id", "name", "name_folded", "created_at")))


def upgrade() -> None:
    connection = op.get_bind()
    taken: set[str] = set()
    oldest_first = sa.select(_tenants.c.id, _tenants.c.name).order_by(_tenants.c.created_at, _tenants.c.id)
    for tenant_id, name in connection.execute(oldest_first).all():
        folded = _folded(name)
        if folded in taken:
            folded = f"{folded} ({tenant_id})"
        taken.add(folded)
        connection.execute(_tenants.update().where(_tenants.c.id == tenant_id).values(name_folded=folded))


def downgrade() -> None:
    op.execute(_tenants.update().values(name_folded=None))


def _folded(name: str) -> str:
    """As the program folds it at the time of this migration; not imported, since a migration stays as it is."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())
