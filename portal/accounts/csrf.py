"""CSRF tokens of forms: tied to the session when signed in, else to a random cookie by a signature.

Nothing is stored. A page of another site can send our cookies but cannot read or compute the token.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from portal.accounts.peppers import Peppers


def session_token(token: str) -> str:
    """The form token of a signed-in browser, derived from its session token."""
    return hmac.new(token.encode(), b"portal csrf token", hashlib.sha256).hexdigest()


def new_cookie() -> str:
    """The random cookie value a form of a not yet signed-in browser is tied to."""
    return secrets.token_urlsafe(24)


def anonymous_token(peppers: Peppers, cookie: str) -> str:
    """The form token that goes with an anonymous browser's cookie."""
    return peppers.current.hexdigest(f"portal anonymous form {cookie}")


def is_valid(given: str | None, expected: str) -> bool:
    """Compares in constant time; None and anything but ASCII is wrong."""
    return given is not None and given.isascii() and hmac.compare_digest(given, expected)
