"""Browsers that have signed in to an account before: a signed, long-lived cookie, which no stranger to it can have.

Anybody who knows an e-mail can use up the account's tries at sign-in. A browser that proves an earlier sign-in to the
same account is counted by itself instead (portal/accounts/throttle.py), so its owner still comes in. The cookie signs
nobody in, names nobody, and ends after MAX_AGE; a sign-in renews it.

It holds some marks `<id>.<time>.<pepper>.<signature>`, newest first, one for each account used in this browser; a
signature covers the account's e-mail, which is not in it.
"""

from __future__ import annotations

import hmac
import re
import secrets
from datetime import timedelta

from models.base import now
from portal.accounts.naming import normalised_email
from portal.accounts.peppers import Pepper, Peppers

COOKIE_NAME = "portal_known"
MAX_AGE = timedelta(days=400)
MAX_ACCOUNTS = 4
_MARK = re.compile(r"([A-Za-z0-9_-]{16})\.([0-9]{1,12})\.([0-9a-f]{16})\.([0-9a-f]{64})")
_BETWEEN = "~"
_ID_BYTES = 12


def browser_id(peppers: Peppers, cookie: str | None, email: str) -> str | None:
    """The random id under which this browser is known to the account of that e-mail, None for a stranger."""
    marks = (cookie or "").split(_BETWEEN)[:MAX_ACCOUNTS]
    found = (_id_of(peppers, mark, normalised_email(email)) for mark in marks)
    return next((known for known in found if known is not None), None)


def remembered(peppers: Peppers, cookie: str | None, email: str) -> str:
    """The cookie's new value after a sign-in to the account: known under the id it had, or under a new one."""
    email = normalised_email(email)
    known = browser_id(peppers, cookie, email) or secrets.token_urlsafe(_ID_BYTES)
    others = [
        mark
        for mark in (cookie or "").split(_BETWEEN)
        if _MARK.fullmatch(mark) and _id_of(peppers, mark, email) is None
    ]
    moment = str(int(now().timestamp()))
    signature = _signature(peppers.current, known, moment, email)
    own = ".".join((known, moment, peppers.current.id, signature))
    return _BETWEEN.join([own, *others][:MAX_ACCOUNTS])


def _id_of(peppers: Peppers, mark: str, email: str) -> str | None:
    parts = _MARK.fullmatch(mark)
    pepper = peppers.find(parts[3]) if parts else None
    if parts is None or pepper is None:
        return None
    is_ours = hmac.compare_digest(_signature(pepper, parts[1], parts[2], email), parts[4])
    is_young = int(parts[2]) + MAX_AGE.total_seconds() > now().timestamp()
    return parts[1] if is_ours and is_young else None


def _signature(pepper: Pepper, known: str, moment: str, email: str) -> str:
    return pepper.hexdigest(f"portal known browser {known} {moment} {email}")
