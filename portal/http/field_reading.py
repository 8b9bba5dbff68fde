"""The fields of a job as both HTTP edges show them: JSON data, drawn as text and shapes, never as HTML.

Keys: fields (rows as templates have them) as asked, documents [{id, name, first_page, is_read, needs_check, values}]; a
value is that of results.field_paths.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from portal.domain import FieldSpec
from portal.engine.fields.specs import specs_to_json
from portal.jobs.fields import DocumentFields
from portal.results.field_paths import fields_with_paths


def fields_shown(specs: Sequence[FieldSpec], documents: Sequence[DocumentFields]) -> dict[str, Any]:
    """The whole in plain JSON types."""
    return {
        "fields": specs_to_json(specs),
        "documents": [
            {
                "id": one.document_id,
                "name": one.file_name,
                "first_page": one.first_page,
                "is_read": one.is_read,
                "needs_check": one.needs_check,
                "values": fields_with_paths(specs, one.values),
            }
            for one in documents
        ],
    }


def fields_json(specs: Sequence[FieldSpec], documents: Sequence[DocumentFields]) -> bytes:
    """The whole as JSON in UTF-8; characters that UTF-8 has not become '?'."""
    shown = fields_shown(specs, documents)
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")
