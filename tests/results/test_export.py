"""Files of results: every page is accounted for, in order, under a safe name."""

from __future__ import annotations

import json

import pytest

from portal.domain import PageState
from portal.engine.fakes import GARBAGE, written
from portal.results.assembly import ReadPage, assemble
from portal.results.export import ExportFormat, export
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


_FAILED = {"state": PageState.FAILED, "error": "The reader stopped in mid-page."}
_PAGES = [
    _page(3, 3, None, **_FAILED),
    _page(1, 1, "Total 9.00"),
    _page(2, 2, ""),
    _page(4, 4, None, state=PageState.CANCELLED),
    _page(5, 5, None, state=PageState.QUEUED),
]


def test_text_says_every_page_in_order_when_some_have_none() -> None:
    made = export(_HEADER, _PAGES, ExportFormat.TXT)
    assert made.content.decode() == (
        "Total 9.00\n\f[Page 2 is blank.]\n\f[Page 3 could not be read: The reader stopped in mid-page.]\n\f"
        "[Page 4 was not read: the job was cancelled.]\n\f[Page 5 has not been read yet.]\n"
    )
    assert (made.file_name, made.media_type) == ("scan.txt", "text/plain; charset=utf-8")


def test_markdown_has_no_heading_when_there_is_one_document() -> None:
    made = export(_HEADER, _PAGES[1:3], ExportFormat.MARKDOWN)
    assert made.content.decode() == "Total 9.00\n\n---\n\n> Page 2 is blank.\n"
    assert made.file_name == "scan.md"


def test_documents_are_headed_by_their_names_when_there_are_several() -> None:
    other = _page(2, 1, "Second", document_id="d2", file_name="`a` <b>.png")
    pages = [other, _page(1, 1, "First")]
    made = export(_HEADER, pages, ExportFormat.MARKDOWN)
    assert made.content.decode() == "# `scan.pdf`\n\nFirst\n\n# `` `a` <b>.png ``\n\nSecond\n"
    assert made.file_name == "job-job_1.md"
    plain = export(_HEADER, pages, ExportFormat.TXT).content.decode()
    assert plain == "===== scan.pdf =====\n\nFirst\n\f===== `a` <b>.png =====\n\nSecond\n"


def test_json_carries_header_states_and_lines() -> None:
    content = json.loads(export(_HEADER, _PAGES, ExportFormat.JSON).content)
    assert (content["id"], content["state"]) == ("job_1", "partial")
    pages = content["documents"][0]["pages"]
    assert [page["number"] for page in pages] == [1, 2, 3, 4, 5]
    assert page_text_from_json(pages[0]["page_text"]) == written("Total 9.00")
    assert [page["is_blank"] for page in pages] == [False, True, None, None, None]
    assert pages[2]["error"] == "The reader stopped in mid-page."


@pytest.mark.parametrize("format", list(ExportFormat))
def test_export_is_written_when_the_text_is_garbage(format: ExportFormat) -> None:
    assert b"onerror" in export(_HEADER, [_page(1, 1, GARBAGE)], format).content


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
    assert export(_HEADER, [_page(1, 1, "x", file_name=name)], ExportFormat.TXT).file_name == safe


def test_documents_come_in_the_order_of_their_first_page() -> None:
    pages = [
        _page(3, 2, "c"),
        _page(2, 1, "b", document_id="d2", file_name="b.png"),
        _page(1, 1, "a"),
    ]
    assert [(document.id, [page.position for page in document.pages]) for document in assemble(pages)] == [
        ("d1", [1, 3]),
        ("d2", [2]),
    ]
