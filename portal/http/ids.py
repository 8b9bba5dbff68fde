"""Ids as they come in paths: what no id can look like is unknown without asking the database.

Postgres takes no NUL in a text, so such a question would be a fault instead of a 404.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator

from portal.errors import NotFound

ID_PATTERN = "^[A-Za-z0-9_-]{1,60}$"
_ID = re.compile(ID_PATTERN.removeprefix("^").removesuffix("$"))
_DESCRIBED: dict[str, Any] = {"pattern": ID_PATTERN}


def possible_id(given: str, *, unknown: str = "There is no such job.", code: str | None = None) -> str:
    """The id itself. Raises NotFound, as for an unknown one, when it can be none."""
    if _ID.fullmatch(given) is None:
        raise NotFound(unknown, code=code)
    return given


def _possible(unknown: str, code: str | None = None) -> Callable[[str], str]:
    return lambda given: possible_id(given, unknown=unknown, code=code)


JobId = Annotated[
    str,
    AfterValidator(_possible("There is no such job.")),
    Path(description="The `id` of the job", examples=["job_5f0c6e…"], json_schema_extra=_DESCRIBED),
]
MemberId = Annotated[
    str,
    AfterValidator(_possible("There is no such member in your tenant.", "member_unknown")),
    Path(description="The `id` of the member", json_schema_extra=_DESCRIBED),
]
InviteId = Annotated[
    str,
    AfterValidator(_possible("There is no such open invite.", "invite_unknown")),
    Path(description="The `id` of the invite", json_schema_extra=_DESCRIBED),
]
KeyId = Annotated[
    str,
    AfterValidator(_possible("There is no such API key.", "api_key_unknown")),
    Path(description="The `id` of the key", json_schema_extra=_DESCRIBED),
]
AdminId = Annotated[
    str,
    AfterValidator(_possible("There is no such thing.")),
    Path(description="An id of the portal's: a tenant's, a change's, a request's", json_schema_extra=_DESCRIBED),
]
