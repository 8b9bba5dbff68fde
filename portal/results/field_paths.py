"""A document's values with the path by which a person corrects each: what the review, REST and the JSON export show.

A path is a field's name, `name[1]` for the second of several on its page, `items[0].amount` for a cell of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from portal.domain import FieldSpec, FieldType
from portal.page_text import FieldValue
from portal.results.serial import field_to_json


def fields_with_paths(specs: Sequence[FieldSpec], values: Sequence[FieldValue]) -> list[dict[str, Any]]:
    """Each value as results.serial gives it, with its `path`; that of rows is null, their cells have their own.

    Numbers in paths count the values of one page: a value is named by its page's position and its path.
    """
    kinds = {spec.name: spec for spec in specs}
    seen: Counter[tuple[str, int | None]] = Counter()
    shown = []
    for value in values:
        spec = kinds[value.name]
        if spec.type is FieldType.ROWS:
            shown.append(field_to_json(value) | {"path": None, "rows": _rows(value)})
            continue
        at = seen[value.name, value.page]
        seen[value.name, value.page] += 1
        shown.append(field_to_json(value) | {"path": f"{value.name}[{at}]" if spec.many else value.name})
    return shown


def _rows(value: FieldValue) -> list[list[dict[str, Any]]]:
    seen: Counter[int | None] = Counter()
    rows = []
    for row in value.rows:
        page = row[0].page if row else None
        at = seen[page]
        seen[page] += 1
        rows.append([field_to_json(cell) | {"path": f"{value.name}[{at}].{cell.name}"} for cell in row])
    return rows
