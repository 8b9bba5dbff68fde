"""Files of results: every page is accounted for, in order, under a safe name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from portal.domain import PageState
from portal.engine.fakes import GARBAGE, written
from portal.page_text import Translation
from portal.results.assembly import ReadPage
from portal.results.export import Export, ExportFormat, export
from portal.results.serial import page_text_from_json

_HEADER = {"id": "job_1", "state": "partial"}


def _page(position: int, number: int, text: str | None, **changed: object) -> ReadPage:
    values: dict[str, object] = {
        "document_id": "d1",
        "file_name": "scan.pdf",
        "state": PageState.SUCCEEDED,
        "text": None if text is None else written(text),
        "error": None,
    }
    return ReadPage(position=position, number=number, **{**values, **changed})  # type: ignore[arg-type]


_OF_TEXT = [format for format in ExportFormat if format is not ExportFormat.CSV]


def _export(pages: list[ReadPage], format: ExportFormat, *file_names: str) -> Export:
    return export(_HEADER, file_names or ("scan.pdf",), iter(pages), format)


def _content(made: Export) -> bytes:
    return b"".join(made.chunks)


_FAILED = {"state": PageState.FAILED, "error": "The reader stopped in mid-page."}
_PAGES = [
    _page(1, 1, "Total 9.00"),
    _page(2, 2, ""),
    _page(3, 3, None, **_FAILED),
    _page(4, 4, None, state=PageState.CANCELLED),
    _page(5, 5, None, state=PageState.QUEUED),
]


def test_text_says_every_page_in_order_when_some_have_none() -> None:
    made = _export(_PAGES, ExportFormat.TXT)
    assert _content(made).decode() == (
        "Total 9.00\n\f[Page 2 is blank.]\n\f[Page 3 could not be read: The reader stopped in mid-page.]\n\f"
        "[Page 4 was not read: the job was cancelled.]\n\f[Page 5 has not been read yet.]\n"
    )
    assert (made.file_name, made.media_type) == ("scan.txt", "text/plain; charset=utf-8")


def test_markdown_has_no_heading_when_there_is_one_document() -> None:
    made = _export(_PAGES[:2], ExportFormat.MARKDOWN)
    assert _content(made).decode() == "Total 9.00\n\n---\n\n> Page 2 is blank.\n"
    assert made.file_name == "scan.md"


def test_documents_are_headed_by_their_names_when_there_are_several() -> None:
    other = _page(2, 1, "Second", document_id="d2", file_name="`a` <b>.png")
    pages, names = [_page(1, 1, "First"), other], ("scan.pdf", "`a` <b>.png")
    made = _export(pages, ExportFormat.MARKDOWN, *names)
    assert _content(made).decode() == "# `scan.pdf`\n\nFirst\n\n# `` `a` <b>.png ``\n\nSecond\n"
    assert made.file_name == "job-job_1.md"
    plain = _content(_export(pages, ExportFormat.TXT, *names)).decode()
    assert plain == "===== scan.pdf =====\n\nFirst\n\f===== `a` <b>.png =====\n\nSecond\n"


def test_json_carries_header_states_and_lines() -> None:
    content = json.loads(_content(_export(_PAGES, ExportFormat.JSON)))
    assert (content["id"], content["state"]) == ("job_1", "partial")
    pages = content["documents"][0]["pages"]
    assert [page["number"] for page in pages] == [1, 2, 3, 4, 5]
    assert page_text_from_json(pages[0]["page_text"]) == written("Total 9.00")
    assert [page["is_blank"] for page in pages] == [False, True, None, None, None]
    assert pages[2]["error"] == "The reader stopped in mid-page."


@pytest.mark.parametrize("format", _OF_TEXT)
def test_export_is_written_when_the_text_is_garbage(format: ExportFormat) -> None:
    assert b"onerror" in _content(_export([_page(1, 1, GARBAGE)], format))


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd.pdf", "passwd.txt"),
        ("C:\\Users\\x\\invoice.v2.pdf", "invoice.v2.txt"),
        ('a"b\r\nSet-Cookie: x.pdf', "a_b Set-Cookie_ x.txt"),
        ("Rechnung März 漢字.pdf", "Rechnung März 漢字.txt"),
        (".pdf", "job-job_1.txt"),
        ("...", "job-job_1.txt"),
        ("x" * 300 + ".pdf", "x" * 120 + ".txt"),
        ("evil\u202efdp.exe", "evil fdp.txt"),
    ],
)
def test_file_name_is_safe_when_the_upload_was_not(name: str, safe: str) -> None:
    assert _export([_page(1, 1, "x", file_name=name)], ExportFormat.TXT, name).file_name == safe


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_json_is_whole_when_there_are_that_many_documents(count: int) -> None:
    names = [f"{number}.pdf" for number in range(count)]
    pages = [
        _page(2 * place + number, number, f"{name} {number}", document_id=name, file_name=name)
        for place, name in enumerate(names)
        for number in (1, 2)
    ]
    content = json.loads(_content(export(_HEADER, names, pages, ExportFormat.JSON)))
    assert [document["file_name"] for document in content["documents"]] == names
    assert [[page["number"] for page in document["pages"]] for document in content["documents"]] == [[1, 2]] * count


@pytest.mark.parametrize("format", _OF_TEXT)
def test_pages_are_taken_one_by_one_as_the_file_is_read(format: ExportFormat) -> None:
    taken = []

    def pages() -> Iterator[ReadPage]:
        for number in range(1, 1001):
            taken.append(number)
            yield _page(number, number, f"Page {number}")

    chunks = export(_HEADER, ["scan.pdf"], pages(), format).chunks
    assert taken == []
    for _ in range(10):
        next(chunks)
    assert len(taken) <= 10
    assert sum(1 for _ in chunks) >= 990


def test_file_ends_in_one_newline_when_its_last_pages_end_in_many() -> None:
    pages = [_page(1, 1, "a\n\n"), _page(2, 2, "b\n\n\n")]
    assert _content(_export(pages, ExportFormat.TXT)).endswith(b"b\n")


@pytest.mark.parametrize("format", [ExportFormat.TXT, ExportFormat.MARKDOWN])
def test_translation_says_how_many_parts_stayed_as_they_were(format: ExportFormat) -> None:
    read = _page(1, 1, "Gesamt")
    assert read.text is not None
    pages = [
        replace(read, text=replace(read.text, translation=Translation("en", "Total", parts))) for parts in (0, 1, 2)
    ]
    said = [_content(_export([page], format)).decode() for page in pages]
    assert ["could not be translated" in one for one in said] == [False, True, True]
    assert "Translation into English (2 parts could not be translated)" in said[2]
