"""Search in a tenant's jobs: by the names of their files, by the text on their pages, or by the job's id.

Substrings of folded text, not a full-text index: it finds parts of numbers and words in every script alike (full-text
search of neither database cuts Chinese or Japanese into words), and is the same on SQLite and Postgres.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, exists, or_
from sqlalchemy.orm import Session

from models import Job, SearchText
from portal.db import Database
from portal.errors import InvalidRequest
from portal.texts import storable

MAX_WORDS = 8
MAX_CHARACTERS = 200


def folded(text: str) -> str:
    """The form in which texts are compared: case, width and spacing do not count."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(storable(plain).split())


def remember_names(session: Session, job: Job, file_names: Sequence[str]) -> None:
    """Makes a new job findable by the names of its files."""
    names = folded("\n".join(file_names))
    session.add(SearchText(tenant_id=job.tenant_id, job_id=job.id, page_id=None, folded=names))


def remember_page(session: Session, tenant_id: str, job_id: str, page_id: str, text: str) -> None:
    """Makes a page findable by its text, once it was read. A page without text has no row."""
    if plain := folded(text):
        session.add(SearchText(tenant_id=tenant_id, job_id=job_id, page_id=page_id, folded=plain))


def matches(database: Database, tenant_id: str, asked: str) -> ColumnElement[bool]:
    """The condition on Job that it is what was asked for: its id begins so, or each word is in a name or on a page.

    Raises InvalidRequest for more than MAX_WORDS words or MAX_CHARACTERS characters.
    """
    words = folded(asked).split()
    if len(words) > MAX_WORDS or len(asked) > MAX_CHARACTERS:
        raise InvalidRequest(
            f"A search takes at most {MAX_WORDS} words and {MAX_CHARACTERS} characters.",
            remedy="Search for fewer words.",
        )
    everywhere = and_(*(_has(database, tenant_id, word) for word in words))
    if len(words) == 1 and words[0].startswith("job_"):
        return or_(Job.id.startswith(words[0], autoescape=True), everywhere)
    return everywhere


def _has(database: Database, tenant_id: str, word: str) -> ColumnElement[bool]:
    own = (SearchText.tenant_id == tenant_id, SearchText.job_id == Job.id)
    return exists().where(*own, database.contains(SearchText.folded, word))
