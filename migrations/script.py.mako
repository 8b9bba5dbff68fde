"""${message}

Rules: additive; reversible; schema and rows in separate migrations (add_…, fill_…, drop_…); a column that is
dropped was unused by the release before; batch operations, since SQLite rebuilds the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    ${_body(upgrades)}


def downgrade() -> None:
    ${_body(downgrades)}
<%!
def _body(lines):
    """Without the comments that Alembic puts around what it generates."""
    kept = [line for line in (lines or "").splitlines() if not line.strip().startswith("# ###")]
    return "\n".join(kept).strip() or "pass"
%>\
