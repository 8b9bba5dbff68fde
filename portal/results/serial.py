"""PageText as JSON and back: the form that is stored and that API users are given.

Keys, stable: width_px, height_px (of the upright page), rotation_degrees (clockwise turn that made it upright),
skew_degrees, confidence (0–1 or null), truncated ("repetition", "length" or null), check_below (lines with a lower
score should be compared with the page; null without scores), markdown, text (derived, for reading), lines [{text,
box [x0, y0, x1, y1] or null, score (0–1 or null), quad [x, y of 4 corners] or null}], blocks [{kind "text" | "table",
rows: rows of cells, each cell the indices of its lines, markdown: where the engine wrote it itself}], figures [boxes],
translation {language, markdown, untranslated: how many parts stayed in their own language, where any did} or null, and
for the task fields `fields` (see field_to_json). Boxes are pixels of the upright page.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from portal.page_text import Block, FieldOriginal, FieldState, FieldValue, Line, PageText, Translation
from portal.texts import storable


def page_text_to_json(page: PageText) -> dict[str, Any]:
    """Plain JSON types only. Characters that no database stores (NUL, lone surrogates) become U+FFFD."""
    return {
        "width_px": page.width_px,
        "height_px": page.height_px,
        "rotation_degrees": page.rotation_degrees,
        "skew_degrees": page.skew_degrees,
        "confidence": page.confidence,
        "truncated": page.truncated,
        "check_below": page.check_below,
        "markdown": storable(page.markdown),
        "text": storable(page.text),
        "lines": [_line_to_json(line) for line in page.lines],
        "blocks": [_block_to_json(block) for block in page.blocks],
        "figures": [list(box) for box in page.figures],
        "translation": None if page.translation is None else _translation_to_json(page.translation),
    } | ({} if page.fields is None else {"fields": [field_to_json(value) for value in page.fields]})


def page_text_from_json(stored: dict[str, Any]) -> PageText:
    """The inverse of page_text_to_json; `text` is derived again. Raises KeyError for another shape."""
    return PageText(
        width_px=stored["width_px"],
        height_px=stored["height_px"],
        lines=tuple(_line_from_json(line) for line in stored["lines"]),
        blocks=tuple(_block_from_json(block) for block in stored["blocks"]),
        markdown=stored["markdown"],
        confidence=stored["confidence"],
        rotation_degrees=stored["rotation_degrees"],
        skew_degrees=stored["skew_degrees"],
        truncated=stored["truncated"],
        check_below=stored.get("check_below"),  # pages read before there were check marks have none
        fields=None if stored.get("fields") is None else tuple(map(field_from_json, stored["fields"])),
        figures=tuple(tuple(box) for box in stored.get("figures", ())),
        translation=_translation_from_json(stored.get("translation")),
    )


def field_to_json(value: FieldValue) -> dict[str, Any]:
    """A field's value.

    Keys: name, value (normalised, null where none was found), raw (as the page says it), currency, page (position in
    the job), box, quad, score, how (it was found), state "read" | "checked" | "rule_failed", messages, original {value,
    raw, currency} (null unless a person corrected it), checked_by, checked_at (ISO 8601), rows (of such values).
    """
    original = value.original
    return {
        "name": storable(value.name),
        "value": _text(value.value),
        "raw": _text(value.raw),
        "currency": value.currency,
        "page": value.page,
        "box": None if value.box is None else list(value.box),
        "quad": None if value.quad is None else list(value.quad),
        "score": value.score,
        "how": _text(value.how),
        "state": value.state.value,
        "messages": [storable(message) for message in value.messages],
        "original": None
        if original is None
        else {"value": _text(original.value), "raw": _text(original.raw), "currency": original.currency},
        "checked_by": value.checked_by,
        "checked_at": None if value.checked_at is None else value.checked_at.isoformat(),
        "rows": [[field_to_json(cell) for cell in row] for row in value.rows],
    }


def field_from_json(stored: dict[str, Any]) -> FieldValue:
    """The inverse of field_to_json."""
    box, quad, original = stored["box"], stored["quad"], stored["original"]
    checked_at = stored.get("checked_at")  # values checked before this was noted have none
    return FieldValue(
        name=stored["name"],
        value=stored["value"],
        raw=stored["raw"],
        currency=stored["currency"],
        box=None if box is None else (box[0], box[1], box[2], box[3]),
        quad=None if quad is None else tuple(quad),
        score=stored["score"],
        how=stored["how"],
        page=stored["page"],
        state=FieldState(stored["state"]),
        messages=tuple(stored["messages"]),
        original=None if original is None else FieldOriginal(**original),
        checked_by=stored["checked_by"],
        checked_at=None if checked_at is None else datetime.fromisoformat(checked_at),
        rows=tuple(tuple(field_from_json(cell) for cell in row) for row in stored["rows"]),
    )


def _text(text: str | None) -> str | None:
    return None if text is None else storable(text)


def _line_to_json(line: Line) -> dict[str, Any]:
    return {
        "text": storable(line.text),
        "box": None if line.box is None else list(line.box),
        "score": line.score,
        "quad": None if line.quad is None else list(line.quad),
    }


def _line_from_json(stored: dict[str, Any]) -> Line:
    box, quad = stored["box"], stored["quad"]
    return Line(
        stored["text"],
        None if box is None else tuple(box),
        stored["score"],
        None if quad is None else tuple(quad),
    )


def _block_to_json(block: Block) -> dict[str, Any]:
    shown = {"kind": block.kind, "rows": [[list(cell) for cell in row] for row in block.rows]}
    return shown if block.markdown is None else {**shown, "markdown": storable(block.markdown)}


def _block_from_json(stored: dict[str, Any]) -> Block:
    rows = tuple(tuple(tuple(cell) for cell in row) for row in stored["rows"])
    return Block(kind=stored["kind"], rows=rows, markdown=stored.get("markdown"))


def _translation_to_json(translation: Translation) -> dict[str, Any]:
    untranslated = {"untranslated": translation.untranslated} if translation.untranslated else {}
    return {"language": translation.language, "markdown": storable(translation.markdown), **untranslated}


def _translation_from_json(stored: dict[str, Any] | None) -> Translation | None:
    if stored is None:
        return None
    return Translation(stored["language"], stored["markdown"], stored.get("untranslated", 0))
