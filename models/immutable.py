"""Tables whose rows are never changed nor deleted: the database itself refuses it, whoever asks."""

from __future__ import annotations

from sqlalchemy import DDL, event

from models.base import Base

_POSTGRES_FUNCTION = """
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME; END $$
"""


def triggers(table: str, dialect: str) -> tuple[str, ...]:
    """The statements that make a table's rows immutable in the dialect ("sqlite" or "postgresql")."""
    if dialect == "sqlite":
        return tuple(
            f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
            for verb in ("update", "delete")
        )
    return (
        _POSTGRES_FUNCTION,
        f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change()",
    )


def keep_immutable(table: type[Base]) -> None:
    """Makes `create_all` add the triggers; a migration adds them by `triggers`."""
    for dialect in ("sqlite", "postgresql"):
        for statement in triggers(table.__tablename__, dialect):
            ddl = DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
            event.listen(Base.metadata.tables[table.__tablename__], "after_create", ddl.execute_if(dialect=dialect))
