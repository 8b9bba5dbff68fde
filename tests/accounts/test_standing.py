from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import func, select, update

from models import ApiKey
from models.base import now
from portal.accounts import api_keys, invites, membership
from portal.accounts.peppers import Peppers
from portal.accounts.rotation import rotate
from portal.db import Database
from portal.domain import Principal, Role
from portal.errors import Unauthenticated


@pytest.mark.parametrize(("end", "code"), [("revoked_at", "api_key_revoked"), ("expires_at", "api_key_expired")])
def test_a_key_makes_ends_and_manages_nothing_when_it_has_ended_meanwhile(
    database: Database, peppers: Peppers, alice: Principal, end: str, code: str
) -> None:
    with database.transaction() as session:
        asking, other = (
            api_keys.create(session, peppers, alice, name=name, scopes=["ocr"]).view for name in ("asking", "other")
        )
        session.execute(update(ApiKey).where(ApiKey.id == asking.id).values({end: now()}))
    by_key = replace(alice, api_key_id=asking.id)
    attempts = (
        lambda session: api_keys.create(session, peppers, by_key, name="late", scopes=["ocr"]),
        lambda session: rotate(session, peppers, by_key, other.id),
        lambda session: api_keys.revoke(session, by_key, other.id),
        lambda session: invites.invite_member(session, by_key, invites.InviteTerms()),
        lambda session: membership.change_role(session, by_key, alice.member_id or "", Role.OWNER),
    )
    for attempt in attempts:
        with pytest.raises(Unauthenticated) as refusal, database.transaction() as session:
            attempt(session)
        assert refusal.value.code == code
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(ApiKey)) == 2
        stored = session.get_one(ApiKey, other.id)
        assert (stored.revoked_at, stored.replaced_by) == (None, None)
