"""Sign-in sessions: a random 256-bit token in the browser's cookie, its SHA-256 in the database.

A session slides: each use prolongs it by its own length, written at most every five minutes. Deleting its row
ends it at once, in all processes.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from models import Member, SignInSession, Tenant
from models.base import now
from portal import audit
from portal.accounts import csrf, passwords, proof, suspension, throttle
from portal.accounts.members import member_principal
from portal.accounts.naming import normalised_email, stored_address
from portal.db import Database
from portal.domain import Principal, TenantState
from portal.errors import Conflict, InvalidRequest, Unauthenticated

COOKIE_NAME = "portal_session"
_SLIDE_EVERY = timedelta(minutes=5)
_MAX_USER_AGENT_LENGTH = 200


@dataclass(frozen=True)
class SignedIn:
    """A proven browser: who it is, the CSRF token of its forms, when it is signed out if not used."""

    principal: Principal
    csrf_token: str
    expires_at: datetime


def sign_in(
    database: Database,
    *,
    email: str,
    password: str,
    address: str | None,
    user_agent: str | None,
    days: int,
    known_as: str | None = None,
) -> str:
    """Proves a member and opens a session of `days` days; gives the token for the cookie.

    `known_as` is the browser's id by known_browsers. Raises Unauthenticated (sign_in_failed), the same and after the
    same work whether the account exists, and TooManyAttempts after 5 failures of the account (of the browser, where the
    account knows it) or 20 of the address. Raises TenantSuspended, with the admin's reason, to nobody but who knows
    the password.
    """
    email = normalised_email(email)
    with database.transaction() as session:
        throttle.begin_sign_in(session, email, address, browser=known_as)
        account = proof.find_account(session, email)
    verdict = passwords.verify(password, account.password_hash if account else None)
    token = secrets.token_urlsafe(32)
    with database.transaction() as session:
        if account and verdict.is_right and (member := proof.unchanged(session, account)):
            throttle.record_success(session, email, address, browser=known_as)
            member.password_hash = verdict.new_hash or member.password_hash
            refusal = suspension.refusal_of(session, member, address)
            if refusal is None:
                _open(session, member, _Browser(token, address, user_agent), timedelta(days=days))
                return token
        else:
            refusal = None
            throttle.record_failure(session, address)
            proof.record_failure(session, account, address)
    raise refusal or Unauthenticated(
        "The e-mail or the password is wrong.",
        code="sign_in_failed",
        remedy="Check both. Forgotten? The portal's admin can give you a new password.",
    )


def open_session(database: Database, principal: Principal, *, user_agent: str | None, days: int) -> str:
    """Opens a session for a member proven otherwise (it has just signed up); gives the token for the cookie.

    Raises Unauthenticated when it was removed meanwhile.
    """
    token = secrets.token_urlsafe(32)
    with database.transaction() as session:
        member = session.scalars(
            select(Member)
            .where(Member.tenant_id == principal.tenant_id, Member.id == principal.member_id)
            .where(Member.removed_at.is_(None))
            .with_for_update(key_share=True)
        ).one_or_none()
        if member is None:
            raise Unauthenticated("This account was removed.", remedy="Ask the owner of the tenant.")
        _open(session, member, _Browser(token, principal.address, user_agent), timedelta(days=days))
    return token


def resolve(database: Database, token: str, *, address: str | None = None) -> SignedIn | None:
    """The browser that holds this token, None when it is unknown, ended, expired, or its tenant is suspended."""
    with database.reading() as session:
        row = session.execute(
            select(SignInSession, Member, Tenant)
            .join(Member, (Member.id == SignInSession.member_id) & (Member.tenant_id == SignInSession.tenant_id))
            .join(Tenant, Tenant.id == SignInSession.tenant_id)
            .where(SignInSession.token_hash == _hash(token), SignInSession.expires_at > now())
            .where(Member.removed_at.is_(None), Tenant.state != TenantState.SUSPENDED)
        ).one_or_none()
    if row is None:
        return None
    opened, member, tenant = row
    return SignedIn(
        principal=member_principal(member, tenant, address=stored_address(address)),
        csrf_token=csrf.session_token(token),
        expires_at=_slide(database, opened),
    )


def sign_out(database: Database, token: str) -> None:
    """Ends the session of this token; does nothing when it has ended."""
    with database.transaction() as session:
        ended = session.scalars(
            delete(SignInSession).where(SignInSession.token_hash == _hash(token)).returning(SignInSession.member_id)
        ).one_or_none()
        member = session.get(Member, ended) if ended else None
        if member:
            audit.record(session, "member.signed_out", actor=member.email, tenant_id=member.tenant_id, target=member.id)


def count_others(database: Database, principal: Principal, token: str) -> int:
    """In how many other browsers the member is signed in."""
    with database.reading() as session:
        return (
            session.scalar(
                select(func.count())
                .select_from(SignInSession)
                .where(*_others(principal, token), SignInSession.expires_at > now())
            )
            or 0
        )


def sign_out_others(database: Database, principal: Principal, token: str) -> int:
    """Ends the member's other sessions; says how many there were."""
    with database.transaction() as session:
        ended = session.scalars(
            delete(SignInSession).where(*_others(principal, token)).returning(SignInSession.token_hash)
        ).all()
        audit.record(
            session,
            "member.other_sessions_ended",
            actor=principal.label,
            tenant_id=principal.tenant_id,
            target=principal.member_id,
            address=principal.address,
            sessions=len(ended),
        )
    return len(ended)


def end_all(session: Session, member: Member) -> int:
    """Ends every session of the member; says how many there were."""
    ended = session.scalars(
        delete(SignInSession)
        .where(SignInSession.tenant_id == member.tenant_id, SignInSession.member_id == member.id)
        .returning(SignInSession.token_hash)
    )
    return len(ended.all())


def purge(session: Session) -> None:
    """Deletes the expired sessions of all tenants. Rows another transaction works on are left to the next purge."""
    ended = select(SignInSession.token_hash).where(SignInSession.expires_at <= now())
    session.execute(
        delete(SignInSession)
        .where(SignInSession.token_hash.in_(ended.with_for_update(skip_locked=True)))
        .execution_options(synchronize_session=False)
    )


def change_password(
    database: Database, principal: Principal, token: str, *, current_password: str, new_password: str
) -> None:
    """Sets a new password and ends the member's other sessions.

    Raises Unauthenticated (current_password_wrong), InvalidRequest (password_…), TooManyAttempts, and Conflict
    when the password was changed elsewhere meanwhile.
    """
    email = principal.email or ""
    passwords.check_policy(new_password, email)
    if new_password == current_password:
        raise InvalidRequest(
            "The new password is the same as the current one.", code="password_unchanged", remedy="Choose another one."
        )
    account = proof.prove_again(database, principal, current_password, browser=_hash(token))
    new_hash = passwords.hashed(new_password)
    with database.transaction() as session:
        _replace_hash(session, principal, account, new_hash)
        session.execute(delete(SignInSession).where(*_others(principal, token)))
        audit.record(
            session,
            "member.password_changed",
            actor=email,
            tenant_id=principal.tenant_id,
            target=principal.member_id,
            address=principal.address,
        )


def _replace_hash(session: Session, principal: Principal, account: proof.Account, new_hash: str) -> None:
    changed = session.scalars(
        update(Member)
        .where(
            Member.tenant_id == principal.tenant_id,
            Member.id == account.member_id,
            Member.password_hash == account.password_hash,
            Member.removed_at.is_(None),
        )
        .values(password_hash=new_hash, password_changed_at=now())
        .returning(Member.id)
    ).one_or_none()
    if changed is None:
        raise Conflict(
            "The password was changed elsewhere at the same moment.",
            code="password_changed_elsewhere",
            remedy="Sign in again with the newest password.",
        )


@dataclass(frozen=True)
class _Browser:
    token: str
    address: str | None
    user_agent: str | None


def _open(session: Session, member: Member, browser: _Browser, lifetime: timedelta) -> None:
    present = now()
    member.last_seen_at = present
    purge(session)
    session.add(
        SignInSession(
            token_hash=_hash(browser.token),
            tenant_id=member.tenant_id,
            member_id=member.id,
            created_at=present,
            last_seen_at=present,
            expires_at=present + lifetime,
            address=stored_address(browser.address),
            user_agent=(browser.user_agent or "")[:_MAX_USER_AGENT_LENGTH] or None,
        )
    )
    audit.record(
        session,
        "member.signed_in",
        actor=member.email,
        tenant_id=member.tenant_id,
        target=member.id,
        address=stored_address(browser.address),
    )


def _slide(database: Database, opened: SignInSession) -> datetime:
    present = now()
    if opened.last_seen_at > present - _SLIDE_EVERY:
        return opened.expires_at
    expires_at = present + (opened.expires_at - opened.last_seen_at)
    with database.transaction() as session:
        # The member first: who removes one locks in this order too.
        session.execute(
            update(Member)
            .where(Member.tenant_id == opened.tenant_id, Member.id == opened.member_id)
            .values(last_seen_at=present)
        )
        session.execute(
            update(SignInSession)
            .where(
                SignInSession.tenant_id == opened.tenant_id,
                SignInSession.token_hash == opened.token_hash,
                SignInSession.last_seen_at == opened.last_seen_at,
            )
            .values(last_seen_at=present, expires_at=expires_at)
        )
    return expires_at


def _others(principal: Principal, token: str) -> tuple[ColumnElement[bool], ...]:
    return (
        SignInSession.tenant_id == principal.tenant_id,
        SignInSession.member_id == principal.member_id,
        SignInSession.token_hash != _hash(token),
    )


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
