"""A member proven by its password: what sign-in and the change of a password have in common.

The hash is compared between two transactions, never inside one; the second sees whether it has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import Member
from portal import audit
from portal.accounts import passwords, throttle
from portal.accounts.members import find_by_email
from portal.accounts.naming import is_email, stored_address
from portal.db import Database
from portal.domain import Principal
from portal.errors import Unauthenticated


@dataclass(frozen=True)
class Account:
    """What is needed of a member between the two transactions."""

    member_id: str
    password_hash: str = field(repr=False)


def find_account(session: Session, email: str) -> Account | None:
    """The account of a normalised e-mail, None when there is none."""
    row = find_by_email(session, email) if is_email(email) else None
    return Account(row[0].id, row[0].password_hash) if row else None


def unchanged(session: Session, account: Account) -> Member | None:
    """The member, locked, unless it was removed or its password changed or reset since it was verified."""
    return session.scalars(
        select(Member)
        .where(Member.id == account.member_id, Member.password_hash == account.password_hash)
        .where(Member.removed_at.is_(None))
        .with_for_update(key_share=True)
    ).one_or_none()


def prove_again(database: Database, principal: Principal, password: str, *, browser: str) -> Account:
    """The principal's account if the password is right.

    Counts as a sign-in by a known browser, `browser` being the id of its session; the address does not matter, since
    others behind it prove nothing here.
    """
    email = principal.email or ""
    with database.transaction() as session:
        throttle.begin_sign_in(session, email, None, browser=browser)
        account = find_account(session, email)
    verdict = passwords.verify(password, account.password_hash if account else None)
    with database.transaction() as session:
        if account and verdict.is_right:
            throttle.record_success(session, email, None, browser=browser)
            return account
        record_failure(session, account, principal.address)
    raise Unauthenticated(
        "The current password is wrong.",
        code="current_password_wrong",
        remedy="Type the password you signed in with.",
    )


def record_failure(session: Session, account: Account | None, address: str | None) -> None:
    """Audits a wrong password. What was typed as an e-mail is not kept for an unknown account: it may be a password."""
    member = session.get(Member, account.member_id) if account else None
    audit.record(
        session,
        "member.sign_in_failed",
        actor=member.email if member else "unknown account",
        tenant_id=member.tenant_id if member else None,
        target=member.id if member else None,
        address=stored_address(address),
        outcome=audit.REFUSED,
    )
