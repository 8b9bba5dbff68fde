"""The patterns that people give for values: RE2 syntax, which takes linear time whatever the pattern and the text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from portal.errors import InvalidRequest

MAX_PATTERN = 200


def check_pattern(pattern: str) -> None:
    """Raises InvalidRequest for what RE2 does not take (look-arounds and back-references among it)."""
    if len(pattern) > MAX_PATTERN:
        raise InvalidRequest(f"A pattern is longer than {MAX_PATTERN} characters.", remedy="Shorten it.")
    try:
        _compiled(pattern)
    except UnicodeEncodeError:
        raise InvalidRequest(
            "A pattern holds what is no character.", remedy="Write the pattern again, as plain text."
        ) from None
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise InvalidRequest(
            f"The pattern '{pattern}' cannot be used: {reason}.",
            remedy="Write it in RE2 syntax: no look-arounds, no back-references.",
        ) from None


def fits(pattern: str, text: str) -> bool:
    """True when the pattern fits the whole text."""
    return _compiled(pattern).fullmatch(_encodable(text)) is not None


def spans(pattern: str, text: str) -> list[tuple[int, int]]:
    """Where the pattern fits parts of the text; anchors at its ends count for the part, not for the text."""
    bare = pattern.removeprefix("^").removesuffix("$") if not pattern.endswith(r"\$") else pattern.removeprefix("^")
    return [found.span() for found in _compiled(bare).finditer(_encodable(text)) if found.end() > found.start()]


def _encodable(text: str) -> str:
    """The text, as long as it was, without lone surrogates: a model's JSON may hold them, and RE2 reads UTF-8."""
    return text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return re2.compile(pattern, options)
