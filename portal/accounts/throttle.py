"""How often sign-in may fail and sign-up may be tried, counted in the database for all processes together.

An attempt on an account is counted before its password is looked at and taken back when it was right, so
parallel guesses get no more tries than guesses in a row. An address is counted when a sign-in fails: people
behind one address who sign in at the same moment do not use up each other's tries.

A browser that has signed in to the account before (`browser`: its id by known_browsers, or of its open session) has
tries of its own instead of the account's: strangers who use those up do not lock it out.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from sqlalchemy import case, delete, select, update
from sqlalchemy.orm import Session

from models import SignInFailures
from models.base import now
from portal.accounts.naming import address_network
from portal.db import insert_into
from portal.errors import TooManyAttempts

MAX_ACCOUNT_FAILURES = 5
MAX_ADDRESS_FAILURES = 20  # an address may be an office: one member's typing must not lock out the others
FAILURE_WINDOW = timedelta(minutes=15)
MAX_SIGN_UPS = 60
SIGN_UP_WINDOW = timedelta(hours=1)
MAX_INVITE_FAILURES = 20


def begin_sign_in(session: Session, email: str, address: str | None, *, browser: str | None = None) -> None:
    """Counts one attempt on the account, or of the browser that it knows.

    Raises TooManyAttempts after 5 failures of either, or 20 of the address.
    """
    if address:
        _refuse_when_used_up(session, _address_subject(address))
    hint = "" if browser else ", or now in a browser in which you have signed in before"
    _count(session, _guessed_subject(email, browser), MAX_ACCOUNT_FAILURES, FAILURE_WINDOW, hint=hint)


def record_failure(session: Session, address: str | None) -> None:
    """Counts a failed sign-in for the address; the account's was counted when it began."""
    if address:
        _upsert(session, _address_subject(address), FAILURE_WINDOW)
    purge(session)


def record_success(session: Session, email: str, address: str | None, *, browser: str | None = None) -> None:
    """Clears the failures that `begin_sign_in` counted, and takes them back from the address: typing errors of its own.

    A known browser clears its own alone: the account's are strangers', who would have five more tries.
    """
    cleared = session.execute(
        delete(SignInFailures)
        .where(SignInFailures.subject == _guessed_subject(email, browser))
        .returning(SignInFailures.failures)
    ).scalar()
    failures = (cleared or 1) - 1
    if not address or not failures:
        return
    left = SignInFailures.failures - failures
    session.execute(
        update(SignInFailures)
        .where(SignInFailures.subject == _address_subject(address))
        .values(failures=case((left > 0, left), else_=0))
    )


def clear_account(session: Session, email: str) -> None:
    """Forgets an account's failures: its password was proven or reset."""
    session.execute(delete(SignInFailures).where(SignInFailures.subject == _account_subject(email)))


def begin_sign_up(session: Session, address: str | None) -> None:
    """Counts one sign-up of the address. Raises TooManyAttempts after 60 within an hour."""
    if address:
        subject = _subject("sign-up address", address_network(address))
        _count(session, subject, MAX_SIGN_UPS, SIGN_UP_WINDOW)
    purge(session)


def begin_invite(session: Session, address: str | None) -> None:
    """Raises TooManyAttempts after 20 links of the address that opened nothing, within 15 minutes."""
    if address:
        _refuse_when_used_up(session, _invite_subject(address), MAX_INVITE_FAILURES)


def record_invite_failure(session: Session, address: str | None) -> None:
    """Counts a link that opened nothing for the address."""
    if address:
        _upsert(session, _invite_subject(address), FAILURE_WINDOW)
    purge(session)


def purge(session: Session) -> None:
    """Deletes the rows whose window ended. Rows another transaction works on are left to the next purge."""
    ended = select(SignInFailures.subject).where(SignInFailures.window_ends_at <= now())
    session.execute(
        delete(SignInFailures)
        .where(SignInFailures.subject.in_(ended.with_for_update(skip_locked=True)))
        .execution_options(synchronize_session=False)
    )


def _count(session: Session, subject: str, limit: int, window: timedelta, *, hint: str = "") -> None:
    failures, ends_at = _upsert(session, subject, window)
    if failures > limit:
        raise _too_many(ends_at, hint)


def _upsert(session: Session, subject: str, window: timedelta) -> tuple[int, datetime]:
    """One atomic statement: counts on, or starts a new window where the old one ended."""
    present = now()
    has_ended = SignInFailures.window_ends_at <= present
    statement = insert_into(session, SignInFailures).values(
        subject=subject, failures=1, window_ends_at=present + window
    )
    row = session.execute(
        statement.on_conflict_do_update(
            index_elements=[SignInFailures.subject],
            set_={
                "failures": case((has_ended, 1), else_=SignInFailures.failures + 1),
                "window_ends_at": case((has_ended, present + window), else_=SignInFailures.window_ends_at),
            },
        ).returning(SignInFailures.failures, SignInFailures.window_ends_at)
    ).one()
    return row.failures, row.window_ends_at


def _refuse_when_used_up(session: Session, subject: str, limit: int = MAX_ADDRESS_FAILURES) -> None:
    row = session.execute(
        select(SignInFailures.failures, SignInFailures.window_ends_at).where(
            SignInFailures.subject == subject, SignInFailures.window_ends_at > now()
        )
    ).one_or_none()
    if row is not None and row.failures >= limit:
        raise _too_many(row.window_ends_at)


def _too_many(ends_at: datetime, hint: str = "") -> TooManyAttempts:
    seconds = max(1, round((ends_at - now()).total_seconds()))
    minutes = -(-seconds // 60)
    wait = "a minute" if minutes == 1 else f"{minutes} minutes"
    return TooManyAttempts(
        "There were too many attempts.",
        remedy=f"Try again in {wait}{hint}.",
        retry_after_seconds=seconds,
    )


def _guessed_subject(email: str, browser: str | None) -> str:
    return _account_subject(email) if browser is None else _subject("browser", f"{browser} {email}")


def _account_subject(email: str) -> str:
    return _subject("account", email)


def _address_subject(address: str) -> str:
    return _subject("address", address_network(address))


def _invite_subject(address: str) -> str:
    return _subject("invite address", address_network(address))


def _subject(kind: str, value: str) -> str:
    return hashlib.sha256(f"{kind} {value}".encode("utf-8", "surrogatepass")).hexdigest()
