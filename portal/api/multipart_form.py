"""Reads a multipart form: file parts stream to disk, plain parts are short texts by name."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool

from portal.api.incoming import IncomingFile, body_too_large, refuse_large_body
from portal.api.problems import invalid_parameter, malformed_body
from portal.errors import InvalidRequest
from portal.http.bodies import bound_by_reader
from portal.settings import IntakeSettings

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FILES_PART = "files"
_FULL_SIZE_FILES = 5
_MAX_TEXT_BYTES = 64 * 2**10


def body_limit_bytes(limits: IntakeSettings) -> int:
    """The largest body of one request: many small files, or as much as a few of the largest size."""
    return _FULL_SIZE_FILES * limits.max_file_bytes


class MultipartForm:
    """What a form held: `files` in their order, `texts` by name. Each part name of `text_names` may come once."""

    def __init__(self, folder: Path, limits: IntakeSettings, text_names: frozenset[str]) -> None:
        self.files: list[IncomingFile] = []
        self.texts: dict[str, str] = {}
        self._folder = folder
        self._limits = limits
        self._text_names = text_names
        self._header_name = b""
        self._header_value = b""
        self._disposition = b""
        self._name = ""
        self._file: IncomingFile | None = None
        self._text = bytearray()
        self.is_complete = False

    def callbacks(self) -> MultipartCallbacks:
        """What the parser calls as it meets each piece."""
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._add_header_name,
            "on_header_value": self._add_header_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._open_part,
            "on_part_data": self._add_bytes,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }

    def close(self) -> None:
        """Closes all files, also of a form that was cut short."""
        for file in self.files:
            file.close()

    def _begin_part(self) -> None:
        self._disposition = b""
        self._file = None
        self._text = bytearray()

    def _add_header_name(self, chunk: bytes, start: int, end: int) -> None:
        self._header_name += chunk[start:end]

    def _add_header_value(self, chunk: bytes, start: int, end: int) -> None:
        self._header_value += chunk[start:end]

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value
        self._header_name = self._header_value = b""

    def _open_part(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if self._name == FILES_PART:
            self._open_file(options.get(b"filename"))
        elif self._name in self.texts:
            raise invalid_parameter(
                ("body", self._name), "came twice", remedy=f"Send it once; only '{FILES_PART}' may be repeated."
            )
        elif self._name not in self._text_names:
            raise self._no_such_part(is_file=b"filename" in options)

    def _no_such_part(self, *, is_file: bool) -> InvalidRequest:
        known = [FILES_PART, *sorted(self._text_names)]
        close = [FILES_PART] if is_file else get_close_matches(self._name[:40], known, n=1)
        meant = f"; did you mean '{close[0]}'?" if close else ""
        return invalid_parameter(
            ("body", self._name[:40] or "(no name)"),
            f"is no part of this form{meant}",
            remedy=f"The form's parts are: {', '.join(known)}.",
        )

    def _open_file(self, file_name: bytes | None) -> None:
        if file_name is None:
            raise invalid_parameter(
                ("body", FILES_PART), "must be a file", remedy="With curl: -F 'files=@scan.pdf' (mind the @)."
            )
        if len(self.files) >= self._limits.max_job_files:
            raise InvalidRequest(
                f"A job takes at most {self._limits.max_job_files} files.",
                code="too_many_files",
                remedy="Split them over several jobs.",
            )
        name = file_name.decode("utf-8", "replace")
        path = self._folder / str(len(self.files))
        self._file = IncomingFile(path, name or "(unnamed)", self._limits.max_file_bytes)
        self.files.append(self._file)

    def _add_bytes(self, chunk: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(chunk[start:end])
            return
        self._text += chunk[start:end]
        if len(self._text) > _MAX_TEXT_BYTES:
            raise invalid_parameter(("body", self._name), f"is longer than {_MAX_TEXT_BYTES} bytes")

    def _end_part(self) -> None:
        if self._file is not None:
            self._file.close()
        else:
            self.texts[self._name] = self._text.decode("utf-8", "replace")

    def _end(self) -> None:
        self.is_complete = True


async def read_form(
    request: Request, folder: Path, *, limits: IntakeSettings, text_names: frozenset[str]
) -> MultipartForm:
    """Reads the whole body into `folder`.

    Raises InvalidRequest (malformed_body when it is no multipart form), DocumentRefused (file_too_large) as soon
    as a limit is passed, Unavailable when the disk takes no more, ClientDisconnect when the sender went away.
    """
    limit_bytes = body_limit_bytes(limits)
    refuse_large_body(request, limit_bytes)
    bound_by_reader(request.scope)
    form = MultipartForm(folder, limits, text_names)
    try:
        parser = MultipartParser(_boundary(request), form.callbacks())
        await _feed(request, parser, limit_bytes)
    except FormParserError as error:
        raise _not_a_form() from error
    finally:
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(form.close)
    if not form.is_complete:
        raise _not_a_form()
    return form


async def _feed(request: Request, parser: MultipartParser, limit_bytes: int) -> None:
    received_bytes = 0
    async for chunk in request.stream():
        received_bytes += len(chunk)
        if received_bytes > limit_bytes:
            raise body_too_large(limit_bytes)
        await run_in_threadpool(parser.write, chunk)
    parser.finalize()


def _boundary(request: Request) -> bytes:
    media_type, options = parse_options_header(request.headers.get("Content-Type"))
    if media_type != b"multipart/form-data" or b"boundary" not in options:
        raise _not_a_form()
    return options[b"boundary"]


def _not_a_form() -> InvalidRequest:
    return malformed_body(
        "The body is not a whole multipart/form-data form.",
        remedy="Send the files as form parts named 'files'; with curl: -F 'files=@scan.pdf'.",
    )
