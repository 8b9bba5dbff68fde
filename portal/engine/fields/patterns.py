"""The patterns that people give for values, in RE2 syntax: one match takes linear time whatever pattern and text are.

Many matches of one line do not, so they are counted; how much all patterns of an order may cost is in `bounds`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

import re2

from portal.errors import InvalidRequest

MAX_PATTERN = 200
_MOST_MATCHES = 50
_LONGEST_TEXT = 1000
_LONGEST_VALUE = 2000


def size_of(pattern: str) -> int:
    """How many instructions RE2 makes of it, which its cost grows with.

    Raises InvalidRequest for what RE2 does not take (look-arounds and back-references among it).
    """
    if len(pattern) > MAX_PATTERN:
        raise InvalidRequest(f"A pattern is longer than {MAX_PATTERN} characters.", remedy="Shorten it.")
    try:
        return max(int(_compiled(one).programsize) for one in (pattern, _bare(pattern)))
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
    """True when the pattern fits the whole text; a text of more than 2000 characters fits none."""
    return len(text) <= _LONGEST_VALUE and _compiled(pattern).fullmatch(_encodable(text)) is not None


def cost(pattern: str, text: str) -> int:
    """What `fits` may cost at most: a hundred million take some 40 ms."""
    return int(_compiled(pattern).programsize) * min(len(text), _LONGEST_VALUE)


def spans(pattern: str, text: str) -> list[tuple[int, int]]:
    """Where the pattern fits parts of the text; anchors at its ends count for the part, not for the text.

    Looked at are the first 1000 characters, and the first 50 matches that are not empty.
    """
    matches = _compiled(_bare(pattern)).finditer(_encodable(text[:_LONGEST_TEXT]))
    return list(islice((found.span() for found in matches if found.end() > found.start()), _MOST_MATCHES))


def _bare(pattern: str) -> str:
    return pattern.removeprefix("^").removesuffix("$") if not pattern.endswith(r"\$") else pattern.removeprefix("^")


def _encodable(text: str) -> str:
    """The text, as long as it was, without lone surrogates: a model's JSON may hold them, and RE2 reads UTF-8."""
    return text.encode("utf-8", "replace").decode()


# Room for all patterns that an order may have (bounds.MAX_PATTERNS), each with its anchors and without.
@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return re2.compile(pattern, options)
