"""The fields of a job as the browser's viewer is given them: JSON data, drawn as text and shapes, never as HTML.

Keys: fields [{name, type, children}] as asked, documents [{name, first_page, is_read, needs_check, values}]; a value
is that of results.serial with the `path` by which a person corrects it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from portal.domain import FieldSpec, FieldType, FieldValue
from portal.engine.fields.specs import specs_to_json
from portal.jobs.fields import DocumentFields
from portal.results.serial import field_to_json


def fields_json(specs: Sequence[FieldSpec], documents: Sequence[DocumentFields]) -> bytes:
    """The whole as JSON in UTF-8; characters that UTF-8 has not become '?'."""
    shown = {
        "fields": specs_to_json(specs),
        "documents": [
            {
                "name": one.file_name,
                "first_page": one.first_page,
                "is_read": one.is_read,
                "needs_check": one.needs_check,
                "values": _values(specs, one),
            }
            for one in documents
        ],
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


def _values(specs: Sequence[FieldSpec], document: DocumentFields) -> list[dict[str, Any]]:
    kinds = {spec.name: spec for spec in specs}
    seen: Counter[tuple[str, int | None]] = Counter()
    shown = []
    for value in document.values:
        spec = kinds[value.name]
        if spec.type is FieldType.ROWS:
            shown.append(field_to_json(value) | {"path": None, "rows": _rows(value)})
            continue
        at = seen[value.name, value.page]
        seen[value.name, value.page] += 1
        shown.append(field_to_json(value) | {"path": f"{value.name}[{at}]" if spec.many else value.name})
    return shown


def _rows(value: FieldValue) -> list[list[dict[str, Any]]]:
    """The cells of each row; a row's number counts on its own page."""
    seen: Counter[int | None] = Counter()
    rows = []
    for row in value.rows:
        page = row[0].page if row else None
        at = seen[page]
        seen[page] += 1
        rows.append([field_to_json(cell) | {"path": f"{value.name}[{at}].{cell.name}"} for cell in row])
    return rows
