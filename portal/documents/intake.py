"""Bytes → a document that may be stored: size, kind, pages and pixels are checked, the name is cleaned.

Refuses with the file's name, a code and a remedy; stores nothing itself.
"""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from portal.documents import refusals
from portal.documents.sandbox import Sandbox
from portal.documents.storage import storage_errors
from portal.domain import Inspection
from portal.errors import DocumentRefused
from portal.settings import IntakeSettings

MAX_NAME_BYTES = 255
_MAX_EXTENSION_BYTES = 16
_UNNAMED = "document"
_BIDI_AND_BOM = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it came: the name that the sender gave it, and a temporary file of ours with its bytes."""

    file_name: str
    path: Path


@dataclass(frozen=True, slots=True)
class PlanBounds:
    """What a file may be by its tenant's plan, named `plan`, besides what the portal takes; None is no limit."""

    plan: str
    max_file_bytes: int | None = None
    max_document_pages: int | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """An upload that may be stored. `file_name` is clean, `sha256` is of the bytes in hex."""

    file_name: str
    inspection: Inspection
    sha256: str
    byte_size: int


def admit(
    upload: Upload, sandbox: Sandbox, limits: IntakeSettings, *, owner: str, bounds: PlanBounds | None = None
) -> Admitted:
    """Checks an upload of `owner`, a tenant's id. Raises DocumentRefused naming the file, Busy or Unavailable."""
    file_name = clean_file_name(upload.file_name)
    try:
        with storage_errors():
            byte_size = upload.path.stat().st_size
            _check_size(byte_size, limits.max_file_bytes)
            if bounds is not None:
                _check_size_by_plan(byte_size, bounds)
            inspection = sandbox.inspect(upload.path, owner=owner)
            if bounds is not None:
                _check_pages_by_plan(inspection.page_count, bounds)
            return Admitted(file_name, inspection, sha256_of(upload.path), byte_size)
    except DocumentRefused as refusal:
        raise refusals.about(file_name, refusal) from refusal


def clean_file_name(name: str) -> str:
    """The last part of a name in NFC, fit to be shown and offered as a download: at most 255 bytes of UTF-8.

    No path, no control characters, none that turn the direction of text (an .exe that reads as .pdf); the extension
    survives the cut. Never empty.
    """
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    shown = "".join(" " if char.isspace() else char for char in last)
    words = "".join(char for char in shown if _is_shown(char)).split()
    return _cut(unicodedata.normalize("NFC", " ".join(words)).strip(" .")) or _UNNAMED


def _is_shown(char: str) -> bool:
    return char not in _BIDI_AND_BOM and unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp")


def _cut(name: str) -> str:
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    ending = dot + extension
    if not stem or len(ending.encode()) > _MAX_EXTENSION_BYTES:
        stem, ending = name, ""
    return stem.encode()[: MAX_NAME_BYTES - len(ending.encode())].decode(errors="ignore") + ending


def _check_size(byte_size: int, limit_bytes: int) -> None:
    if byte_size == 0:
        raise refusals.empty()
    if byte_size > limit_bytes:
        raise refusals.too_large(byte_size, limit_bytes)


def _check_size_by_plan(byte_size: int, bounds: PlanBounds) -> None:
    if bounds.max_file_bytes is not None and byte_size > bounds.max_file_bytes:
        raise refusals.by_plan(refusals.too_large(byte_size, bounds.max_file_bytes), bounds.plan)


def _check_pages_by_plan(page_count: int, bounds: PlanBounds) -> None:
    if bounds.max_document_pages is not None and page_count > bounds.max_document_pages:
        raise refusals.by_plan(refusals.too_many_pages(page_count, bounds.max_document_pages), bounds.plan)


def sha256_of(path: Path) -> str:
    """The hash of the file's bytes, in hex. Raises OSError."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
