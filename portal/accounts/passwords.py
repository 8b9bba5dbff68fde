"""Passwords: policy, argon2id hashes, and verification that takes as long for an unknown account.

Call it outside transactions. libpass is the kept-up fork of passlib, whose 1.7.4 breaks with argon2-cffi 25.
"""

from __future__ import annotations

import os
import secrets
import threading
import unicodedata
from dataclasses import dataclass
from functools import cache

from passlib.context import CryptContext

from portal.errors import InvalidRequest

MIN_LENGTH = 8
MAX_LENGTH = 200

# OWASP's password storage cheat sheet: argon2id with 19 MiB, two passes, one lane.
_CONTEXT = CryptContext(
    schemes=["argon2"],
    argon2__type="ID",
    argon2__memory_cost=19 * 1024,
    argon2__time_cost=2,
    argon2__parallelism=1,
)
# Each hash holds 19 MiB: a flood of sign-ins waits here instead of eating the portal's memory.
_SLOTS = threading.BoundedSemaphore(min(4, os.cpu_count() or 1))
_READABLE = "abcdefghjkmnpqrstuvwxyz23456789"


@dataclass(frozen=True)
class Verdict:
    """Whether the password fits, and a new hash to store when the old one has outdated costs."""

    is_right: bool
    new_hash: str | None = None


def check_policy(password: str, email: str) -> None:
    """Raises InvalidRequest (password_too_short, password_too_long, password_is_email)."""
    if len(password) < MIN_LENGTH:
        raise InvalidRequest(
            f"A password has at least {MIN_LENGTH} characters.",
            code="password_too_short",
            remedy="A few words in a row are strong and easy to keep.",
        )
    if len(password) > MAX_LENGTH:
        raise InvalidRequest(
            f"A password has at most {MAX_LENGTH} characters.",
            code="password_too_long",
            remedy="Choose a shorter one.",
        )
    if password.strip().casefold() == email.strip().casefold():
        raise InvalidRequest(
            "The password must not be the e-mail address.",
            code="password_is_email",
            remedy="Choose something that others do not know.",
        )


def hashed(password: str) -> str:
    """The argon2id hash to store; about 50 ms of one core and 19 MiB."""
    with _SLOTS:
        return str(_CONTEXT.hash(_encoded(password)))


def verify(password: str, stored_hash: str | None) -> Verdict:
    """Compares with the stored hash; with None (no such account) does the same work and says no."""
    is_known = stored_hash is not None and len(password) <= MAX_LENGTH
    with _SLOTS:
        is_right, new_hash = _CONTEXT.verify_and_update(
            _encoded(password[:MAX_LENGTH]), stored_hash if is_known else _unknown_account_hash()
        )
    if not is_known or not is_right:
        return Verdict(is_right=False)
    return Verdict(is_right=True, new_hash=new_hash)


def one_time_password() -> str:
    """A fresh password of 99 bits in four groups, with no letters that look alike."""
    groups = ("".join(secrets.choice(_READABLE) for _ in range(5)) for _ in range(4))
    return "-".join(groups)


def _encoded(password: str) -> bytes:
    """NFKC, so that the same word typed on two keyboards is the same password (NIST SP 800-63B)."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")


@cache
def _unknown_account_hash() -> str:
    return str(_CONTEXT.hash(secrets.token_bytes(16)))
