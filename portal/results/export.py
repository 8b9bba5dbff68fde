"""A job's result as one file: plain text, Markdown or JSON.

Pages that failed, are blank or were not read are said in words, so that nobody takes a gap for an empty page.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from portal.results.assembly import ReadDocument, ReadPage, absence, assemble, shown_text
from portal.results.serial import page_text_to_json

_MAX_STEM_BYTES = 120
_PAGE_BREAK = "\n\f"


class ExportFormat(StrEnum):
    """Kinds of file a result can be had as; the values are those of `?format=`."""

    TXT = "txt"
    MARKDOWN = "markdown"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Export:
    """A file to hand out. `file_name` is safe in a header and on every file system."""

    content: bytes
    media_type: str
    file_name: str


def export(job_header: dict[str, Any], pages: Sequence[ReadPage], format: ExportFormat) -> Export:
    """The whole job in one file. `job_header` opens the JSON; its `id` names the file of several documents."""
    documents = assemble(pages)
    stem = _stem(job_header, documents)
    match format:
        case ExportFormat.TXT:
            return _file(_plain(documents), "text/plain; charset=utf-8", f"{stem}.txt")
        case ExportFormat.MARKDOWN:
            return _file(_markdown(documents), "text/markdown; charset=utf-8", f"{stem}.md")
        case ExportFormat.JSON:
            content = {**job_header, "documents": [_document_json(document) for document in documents]}
            text = json.dumps(content, ensure_ascii=False, indent=2)
            return _file(text, "application/json", f"{stem}.json")


def _file(text: str, media_type: str, file_name: str) -> Export:
    content = text.encode("utf-8", errors="replace").rstrip(b"\n") + b"\n"
    return Export(content, media_type, file_name)


def _plain(documents: Sequence[ReadDocument]) -> str:
    """Pages end in a form feed, as those of pdftotext do."""
    parts = []
    for document in documents:
        pages = _PAGE_BREAK.join(_plain_page(page) for page in document.pages)
        heading = f"===== {document.file_name} =====\n\n" if len(documents) > 1 else ""
        parts.append(heading + pages)
    return _PAGE_BREAK.join(parts)


def _plain_page(page: ReadPage) -> str:
    text = shown_text(page)
    return f"[{absence(page)}]" if text is None else text.text


def _markdown(documents: Sequence[ReadDocument]) -> str:
    parts = []
    for document in documents:
        pages = "\n\n---\n\n".join(_markdown_page(page) for page in document.pages)
        heading = f"# {_code(document.file_name)}\n\n" if len(documents) > 1 else ""
        parts.append(heading + pages)
    return "\n\n".join(parts)


def _markdown_page(page: ReadPage) -> str:
    text = shown_text(page)
    return f"> {' '.join(absence(page).split())}" if text is None else text.markdown


def _code(name: str) -> str:
    """A code span shows any file name literally; its fence is longer than any run of backticks within."""
    name = " ".join(name.split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", name)), default=0))
    return f"{fence} {name} {fence}" if "`" in name else f"{fence}{name}{fence}"


def _document_json(document: ReadDocument) -> dict[str, Any]:
    pages = [_page_json(page) for page in document.pages]
    return {"id": document.id, "file_name": document.file_name, "pages": pages}


def _page_json(page: ReadPage) -> dict[str, Any]:
    return {
        "position": page.position,
        "number": page.number,
        "state": page.state.value,
        "error": page.error,
        "is_blank": None if page.text is None else page.text.is_blank,
        "page_text": None if page.text is None else page_text_to_json(page.text),
    }


def _stem(job_header: dict[str, Any], documents: Sequence[ReadDocument]) -> str:
    fallback = _safe(f"job-{job_header.get('id', 'result')}")
    if len(documents) != 1:
        return fallback
    return _safe(re.sub(r"\.[^.]{1,5}$", "", documents[0].file_name)) or fallback


def _safe(name: str) -> str:
    """A file stem without folders, control or reserved characters, bounded in bytes; may come out empty."""
    name = unicodedata.normalize("NFC", name.replace("\\", "/").rsplit("/", 1)[-1])
    name = "".join(" " if unicodedata.category(char)[0] == "C" else char for char in name)
    name = re.sub(r'[<>:"|?*%;]+', "_", name)
    name = name.encode()[:_MAX_STEM_BYTES].decode(errors="ignore")
    return " ".join(name.split()).strip(". ")
