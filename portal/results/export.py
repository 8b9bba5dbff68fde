"""A job's result as one file: plain text, Markdown, JSON or CSV, written page by page as the reader takes it.

Pages that failed, are blank or were not read are said in words, so that nobody takes a gap for an empty page.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from portal.domain import FieldSpec
from portal.languages import language_name
from portal.page_text import FieldValue, Translation
from portal.results.assembly import ReadPage, absence, shown_text
from portal.results.field_csv import field_csv
from portal.results.field_paths import fields_with_paths
from portal.results.serial import page_text_to_json
from portal.wording import counted

Boundary = Literal["start", "document", "page"]

_MAX_STEM_BYTES = 120


class ExportFormat(StrEnum):
    """Kinds of file a result can be had as; the values are those of `?format=`."""

    TXT = "txt"
    MARKDOWN = "markdown"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Export:
    """A file to hand out, in pieces that are made while they are taken, once. `file_name` is safe everywhere."""

    chunks: Iterator[bytes]
    media_type: str
    file_name: str


@dataclass(frozen=True, slots=True)
class FieldTable:
    """The fields of a job's documents: what was asked, and by document its file name, need of a check, and values."""

    specs: tuple[FieldSpec, ...] = ()
    documents: Mapping[str, tuple[str, bool, tuple[FieldValue, ...]]] = field(default_factory=dict)


def export(
    job_header: Mapping[str, Any],
    file_names: Sequence[str],
    pages: Iterable[ReadPage],
    format: ExportFormat,
    *,
    fields: FieldTable | None = None,
) -> Export:
    """The whole job in one file, a page at a time.

    `file_names` are those of its documents; `pages` come by position, those of a document side by side. `job_header`
    opens the JSON; its `id` names the file of several documents. A CSV is made of `fields` alone; the JSON has those
    of each document beside its pages.
    """
    stem = _stem(job_header, file_names)
    has_headings = len(file_names) > 1
    match format:
        case ExportFormat.TXT:
            return _file(_plain(pages, has_headings=has_headings), "text/plain; charset=utf-8", f"{stem}.txt")
        case ExportFormat.MARKDOWN:
            return _file(_markdown(pages, has_headings=has_headings), "text/markdown; charset=utf-8", f"{stem}.md")
        case ExportFormat.JSON:
            return _file(_json(job_header, pages, fields), "application/json", f"{stem}.json")
        case ExportFormat.CSV:
            table = fields or FieldTable()
            return _file(field_csv(table.specs, table.documents.values()), "text/csv; charset=utf-8", f"{stem}.csv")


def _file(texts: Iterator[str], media_type: str, file_name: str) -> Export:
    chunks = (text.encode("utf-8", errors="replace") for text in texts)
    return Export(_ending_in_one_newline(chunks), media_type, file_name)


def _ending_in_one_newline(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held = b""
    for chunk in chunks:
        shown = chunk.rstrip(b"\n")
        if shown:
            yield held + shown
            held = b""
        held += chunk[len(shown) :]
    yield b"\n"


def _bounded(pages: Iterable[ReadPage]) -> Iterator[tuple[Boundary, ReadPage]]:
    """Each page with what lies before it: the file's start, another document, or a page of its own document."""
    document_id = None
    for page in pages:
        within: Boundary = "start" if document_id is None else "document"
        yield "page" if page.document_id == document_id else within, page
        document_id = page.document_id


def _plain(pages: Iterable[ReadPage], *, has_headings: bool) -> Iterator[str]:
    """Pages end in a form feed, as those of pdftotext do."""
    for boundary, page in _bounded(pages):
        heading = f"===== {page.file_name} =====\n\n" if has_headings and boundary != "page" else ""
        yield ("" if boundary == "start" else "\n\f") + heading + _plain_page(page)


def _plain_page(page: ReadPage) -> str:
    text = shown_text(page)
    if text is None:
        return f"[{absence(page)}]"
    if text.translation is None:
        return text.text
    return f"{text.text}\n\n----- {_translated_into(text.translation)} -----\n\n{text.translation.markdown}"


def _markdown(pages: Iterable[ReadPage], *, has_headings: bool) -> Iterator[str]:
    between: dict[Boundary, str] = {"start": "", "document": "\n\n", "page": "\n\n---\n\n"}
    for boundary, page in _bounded(pages):
        heading = f"# {_code(page.file_name)}\n\n" if has_headings and boundary != "page" else ""
        yield between[boundary] + heading + _markdown_page(page)


def _markdown_page(page: ReadPage) -> str:
    text = shown_text(page)
    if text is None:
        return f"> {' '.join(absence(page).split())}"
    if text.translation is None:
        return text.markdown
    return f"{text.markdown}\n\n**{_translated_into(text.translation)}**\n\n{text.translation.markdown}"


def _translated_into(translation: Translation) -> str:
    return f"Translation into {language_name(translation.language)}{_kept(translation.untranslated)}"


def _kept(parts: int) -> str:
    """What is said of a translation's parts that stayed in their own language."""
    return f" ({counted(parts, 'part')} could not be translated)" if parts else ""


def _code(name: str) -> str:
    """A code span shows any file name literally; its fence is longer than any run of backticks within."""
    name = " ".join(name.split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", name)), default=0))
    return f"{fence} {name} {fence}" if "`" in name else f"{fence}{name}{fence}"


def _json(job_header: Mapping[str, Any], pages: Iterable[ReadPage], fields: FieldTable | None) -> Iterator[str]:
    """The header, then documents with their pages. Without indents: json's fast encoder makes none."""
    between: dict[Boundary, str] = {"start": "", "document": "]}, ", "page": ", "}
    end = "]}"
    yield _with_open_list({**job_header, "documents": []})
    for boundary, page in _bounded(pages):
        own = {} if fields is None else _document_fields(fields, page.document_id)
        document = {"id": page.document_id, "file_name": page.file_name, **own, "pages": []}
        opening = "" if boundary == "page" else _with_open_list(document)
        yield between[boundary] + opening + json.dumps(_page_json(page), ensure_ascii=False)
        end = "]}]}"
    yield end


def _document_fields(fields: FieldTable, document_id: str) -> dict[str, Any]:
    _, is_to_check, values = fields.documents.get(document_id, ("", False, ()))
    return {"needs_check": is_to_check, "fields": fields_with_paths(fields.specs, values)}


def _with_open_list(content: Mapping[str, Any]) -> str:
    """An object as JSON up to its last value, an empty list, which stays open."""
    return json.dumps(content, ensure_ascii=False).removesuffix("]}")


def _page_json(page: ReadPage) -> dict[str, Any]:
    return {
        "position": page.position,
        "number": page.number,
        "state": page.state.value,
        "error": page.error,
        "is_blank": None if page.text is None else page.text.is_blank,
        "page_text": None if page.text is None else page_text_to_json(page.text),
    }


def _stem(job_header: Mapping[str, Any], file_names: Sequence[str]) -> str:
    fallback = _safe(f"job-{job_header.get('id', 'result')}")
    if len(file_names) != 1:
        return fallback
    return _safe(re.sub(r"\.[^.]{1,5}$", "", file_names[0])) or fallback


def _safe(name: str) -> str:
    """A file stem without folders, control or reserved characters, bounded in bytes; may come out empty."""
    name = unicodedata.normalize("NFC", name.replace("\\", "/").rsplit("/", 1)[-1])
    name = "".join(" " if unicodedata.category(char)[0] == "C" else char for char in name)
    name = re.sub(r'[<>:"|?*%;]+', "_", name)
    name = name.encode()[:_MAX_STEM_BYTES].decode(errors="ignore")
    return " ".join(name.split()).strip(". ")
