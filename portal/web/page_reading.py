"""One page as the browser's viewer is given it: JSON data, which the viewer draws as text and shapes, never as HTML.

Keys: position, number, file_name, state, is_blank, error {message, remedy} or null, has_image, lines_to_check (null
where there is no score), page_text (results.serial) or null, places (lines [{text, box, score, quad}] of values that
stand in no line of it), language (of its text, null where that is not clear), block_markdown (one for each block of
page_text), translation {language, name, untranslated, lines (texts), blocks} or null.
"""

from __future__ import annotations

import json
from typing import Any

from portal.engine.answers.markdown_pages import written_page
from portal.engine.answers.raw_lines import raw_lines
from portal.engine.markdown import to_markdown
from portal.jobs.queries import PageError, PageReading
from portal.languages import language_name
from portal.page_text import PageText
from portal.results.language import language_of
from portal.results.serial import page_text_to_json


def page_reading_json(reading: PageReading) -> bytes:
    """The page as JSON in UTF-8; characters that UTF-8 has not become '?'."""
    page = reading.page
    shown = {
        "position": page.position,
        "number": page.number,
        "file_name": page.file_name,
        "state": page.state.value,
        "is_blank": page.is_blank,
        "error": _error(page.error),
        "has_image": reading.has_image,
        "lines_to_check": None if reading.text is None else reading.text.lines_to_check,
        "page_text": None if reading.text is None else page_text_to_json(reading.text),
        "places": [] if reading.text is None else _places(reading.text),
        "language": None if reading.text is None else language_of(reading.text.text),
        "block_markdown": [] if reading.text is None else _block_markdown(reading.text),
        "translation": None if reading.text is None else _translation(reading.text),
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


def _places(text: PageText) -> list[dict[str, Any]]:
    """Where values of the fields stand that stand in none of the page's lines, as lines of their own."""
    values = [cell for value in text.fields or () for cell in (value, *(cell for row in value.rows for cell in row))]
    own = {line.box for line in text.lines}
    found = {value.box: value for value in values if value.box is not None and value.box not in own}
    return [
        {"text": value.raw or value.value or "", "box": box, "score": None, "quad": value.quad}
        for box, value in found.items()
    ]


def _error(error: PageError | None) -> dict[str, Any] | None:
    return None if error is None else {"message": error.message, "remedy": error.remedy}


def _translation(text: PageText) -> dict[str, Any] | None:
    """The translation in lines and blocks, so that it is drawn as the page's own text is."""
    if text.translation is None:
        return None
    page = written_page(raw_lines(text.translation.markdown))
    return {
        "language": text.translation.language,
        "name": language_name(text.translation.language),
        "untranslated": text.translation.untranslated,
        "lines": [line.text for line in page.lines],
        "blocks": [{"kind": block.kind, "rows": block.rows} for block in page.blocks],
    }


def _block_markdown(text: PageText) -> list[str]:
    return [to_markdown(text.lines, [block]) for block in text.blocks]
