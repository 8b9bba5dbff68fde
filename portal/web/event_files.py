"""Files named inside what a browser sends to an event: each must be the sender's own upload.

Gradio takes any path under its upload folder from anybody, and fetches http(s) paths itself. Here a path must be
letter for letter one that an upload of this member was answered with; nothing is normalised to make it fit.

It runs on the event loop, so what one call may cost is bounded: values of any kind, and characters to normalise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from portal.errors import InvalidRequest, NotFound

_MAX_PATH_LENGTH = 4096
_MAX_VALUES = 10_000
_MAX_NORMALISED_CHARACTERS = 2**18
_CHARACTERS_OF_A_TEXT = 64  # a short text costs as much as one of so many
_FILE_ROUTE = "/gradio_api/file="


class EventFiles:
    """Checks the values of one call. `is_mine` says whether a path is this member's upload."""

    def __init__(self, upload_dir: Path, *, is_mine: Callable[[str], bool], is_own_url: Callable[[str], bool]) -> None:
        self._folders = tuple({str(upload_dir), str(upload_dir.resolve())})
        self._folder_names = tuple({os.path.basename(folder) for folder in self._folders})
        self._is_mine = is_mine
        self._is_own_url = is_own_url

    def check(self, value: Any) -> None:
        """Walks dicts, lists and strings to any depth. Raises NotFound or InvalidRequest at the first foreign file.

        InvalidRequest also when the value holds more than can be checked in a few milliseconds.
        """
        left = _MAX_NORMALISED_CHARACTERS
        for part in _parts(value):
            if isinstance(part, str):
                if self._may_name_a_file(part):
                    left -= min(max(len(part), _CHARACTERS_OF_A_TEXT), _MAX_PATH_LENGTH)
                    if left < 0:
                        raise _too_much()
                    self._check_text(part)
            else:
                self._check_file(part)

    def _check_file(self, value: dict[str, Any]) -> None:
        if "path" in value and value["path"] is not None:
            self._check_path(value["path"])
        if value.get("url") is not None and ("path" in value or "meta" in value or "orig_name" in value):
            self._check_url(value["url"])

    def _check_path(self, path: object) -> None:
        if not isinstance(path, str):
            raise InvalidRequest("A file's path must be text.", remedy="Upload the file again.")
        if "://" in path or path.startswith("//"):
            raise _remote()
        if not self._is_mine(path):
            raise _unknown()

    def _check_url(self, url: object) -> None:
        if not isinstance(url, str):
            raise InvalidRequest("A file's address must be text.", remedy="Upload the file again.")
        if url == "" or url.startswith(("data:", "blob:")):
            return
        _, route, path = url.partition(_FILE_ROUTE)
        if not route or not self._is_own_url(url):
            raise _remote()
        if not self._is_mine(unquote(path)):
            raise _unknown()

    def _may_name_a_file(self, text: str) -> bool:
        """Whatever the spelling, a path in the folder names the folder; most texts do not."""
        return "%" in text or self._names_the_folder(text)

    def _names_the_folder(self, text: str) -> bool:
        return any(name in text for name in self._folder_names)

    def _check_text(self, text: str) -> None:
        plain = unquote(text) if len(text) <= _MAX_PATH_LENGTH else text
        if not self._names_the_folder(text) and not self._names_the_folder(plain):
            return
        for form in _forms(text, plain):
            for folder in self._folders:
                _, found, rest = form.partition(folder)
                if found and not self._is_mine_in_either_form(found + rest):
                    raise _unknown()

    def _is_mine_in_either_form(self, path: str) -> bool:
        """As it is, or as it stands in an address: the folder is a hash of the bytes, so both are the same content."""
        return self._is_mine(path) or self._is_mine(unquote(path))


def _parts(value: Any) -> Iterator[str | dict[str, Any]]:
    """Every string and every dict in a JSON value, keys included. A stack, since the sender chooses the depth.

    Raises InvalidRequest before it has walked more than _MAX_VALUES values of any kind, keys included.
    """
    waiting, count = [value], 1
    while waiting:
        part = waiting.pop()
        if isinstance(part, (dict, list)):
            count += 2 * len(part) if isinstance(part, dict) else len(part)
            if count > _MAX_VALUES:
                raise _too_much()
        if isinstance(part, dict):
            yield part
            yield from part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, str):
            yield part


def _forms(text: str, plain: str) -> Iterator[str]:
    """The text as it came, as it reads in an address, and as the system would resolve it."""
    yield text
    if len(text) > _MAX_PATH_LENGTH or "\0" in text:
        return
    yield plain
    if "/" in plain and "\0" not in plain:
        yield os.path.abspath(plain.strip())


def _too_much() -> InvalidRequest:
    return InvalidRequest("This call holds too many values.", remedy="Send less at once.")


def _remote() -> InvalidRequest:
    return InvalidRequest(
        "Files at other addresses are not fetched.",
        code="remote_file",
        remedy="Download the file and upload it here.",
    )


def _unknown() -> NotFound:
    return NotFound("This file is not one of your uploads, or it has expired.", remedy="Upload the file again.")
