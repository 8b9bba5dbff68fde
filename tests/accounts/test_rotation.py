from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from models import ApiKey
from models.base import now
from portal.accounts import api_keys, key_proof
from portal.accounts.api_keys import ApiKeyView, CreatedKey
from portal.accounts.peppers import Peppers
from portal.accounts.rotation import Overlap, rotate
from portal.db import Database
from portal.domain import Principal, Role, Scope
from portal.errors import Conflict, Forbidden, NotFound, Unauthenticated
from tests.accounts import at_once, audited


def _create(
    database: Database,
    peppers: Peppers,
    who: Principal,
    expires_at: datetime | None = None,
    scopes: tuple[str, ...] = ("ocr", "read"),
) -> CreatedKey:
    with database.transaction() as session:
        return api_keys.create(session, peppers, who, name="Scanner", scopes=scopes, expires_at=expires_at)


def _rotate(
    database: Database,
    peppers: Peppers,
    who: Principal,
    key_id: str,
    overlap: Overlap = Overlap.DAY,
    not_after: datetime | None = None,
) -> CreatedKey:
    with database.transaction() as session:
        return rotate(session, peppers, who, key_id, overlap=overlap, not_after=not_after)


def _view(database: Database, who: Principal, key_id: str) -> ApiKeyView:
    with database.reading() as session:
        return next(view for view in api_keys.list_keys(session, who.tenant_id) if view.id == key_id)


@pytest.mark.parametrize("overlap", [Overlap.HOUR, Overlap.DAY, Overlap.WEEK])
def test_both_keys_work_until_the_chosen_time_when_rotated(
    database: Database, peppers: Peppers, alice: Principal, overlap: Overlap
) -> None:
    old = _create(database, peppers, alice)
    new = _rotate(database, peppers, alice, old.view.id, overlap)
    assert (new.view.name, new.view.scopes, new.view.expires_at) == ("Scanner", (Scope.OCR, Scope.READ), None)
    for key in (old.key, new.key):
        assert key_proof.authenticate(database, peppers, key, address=None).tenant_id == alice.tenant_id
    stored = _view(database, alice, old.view.id)
    assert stored.replaced_by == new.view.id
    assert stored.revoked_at is None
    assert stored.expires_at is not None
    assert abs(stored.expires_at - now() - overlap.length) < timedelta(minutes=1)
    with database.transaction() as session:
        session.execute(update(ApiKey).where(ApiKey.id == old.view.id).values(expires_at=now()))
    with pytest.raises(Unauthenticated):
        key_proof.authenticate(database, peppers, old.key, address=None)
    entry = next(entry for entry in audited(database) if entry.action == "api_key.rotated")
    assert (entry.actor, entry.target) == ("alice@example.org", old.view.id)
    assert entry.details["replaced_by"] == new.view.id
    assert entry.details["overlap"] == overlap.value
    assert new.key.rpartition("_")[2] not in str(entry.details)


def test_old_key_ends_at_once_when_there_is_no_overlap(database: Database, peppers: Peppers, alice: Principal) -> None:
    old = _create(database, peppers, alice)
    new = _rotate(database, peppers, alice, old.view.id, Overlap.NONE)
    with pytest.raises(Unauthenticated) as refusal:
        key_proof.authenticate(database, peppers, old.key, address=None)
    assert refusal.value.code == "api_key_revoked"
    key_proof.authenticate(database, peppers, new.key, address=None)


def test_new_key_lives_as_long_as_the_old_was_given_when_rotated(
    database: Database, peppers: Peppers, alice: Principal
) -> None:
    old = _create(database, peppers, alice, expires_at=now() + timedelta(days=90))
    with database.transaction() as session:  # it is 89.9 days old
        session.execute(
            update(ApiKey).values(
                created_at=now() - timedelta(days=90) + timedelta(hours=2), expires_at=now() + timedelta(hours=2)
            )
        )
    new = _rotate(database, peppers, alice, old.view.id, Overlap.WEEK)
    assert new.view.expires_at is not None
    assert abs(new.view.expires_at - now() - timedelta(days=90)) < timedelta(minutes=1)
    ends = _view(database, alice, old.view.id).expires_at
    assert ends is not None
    assert ends - now() < timedelta(hours=2), "an overlap lengthens no life"
    bound = now() + timedelta(days=5)
    assert _rotate(database, peppers, alice, new.view.id, not_after=bound).view.expires_at == bound


@pytest.mark.parametrize("ending", ["revoked", "expired", "replaced"])
def test_key_that_has_ended_is_not_rotated(database: Database, peppers: Peppers, alice: Principal, ending: str) -> None:
    old = _create(database, peppers, alice)
    if ending == "replaced":
        _rotate(database, peppers, alice, old.view.id)
    else:
        values = {"revoked": {"revoked_at": now()}, "expired": {"expires_at": now()}}[ending]
        with database.transaction() as session:
            session.execute(update(ApiKey).values(**values))
    with database.reading() as session:
        before = len(session.scalars(select(ApiKey)).all())
    with pytest.raises(Conflict) as refusal:
        _rotate(database, peppers, alice, old.view.id)
    assert refusal.value.code == ("api_key_replaced" if ending == "replaced" else "api_key_ended")
    with database.reading() as session:
        assert len(session.scalars(select(ApiKey)).all()) == before


def test_each_persona_rotates_only_what_is_theirs(
    database: Database, peppers: Peppers, alice: Principal, bob: Principal, charlie: Principal
) -> None:
    of_alice, of_bob = _create(database, peppers, alice), _create(database, peppers, bob)
    with pytest.raises(NotFound):
        _rotate(database, peppers, charlie, of_alice.view.id)
    with pytest.raises(Forbidden):
        _rotate(database, peppers, bob, of_alice.view.id)
    assert _view(database, alice, of_alice.view.id).replaced_by is None
    assert _rotate(database, peppers, bob, of_bob.view.id).view.created_by == "bob@example.org"
    again = _view(database, alice, of_bob.view.id).replaced_by
    assert again is not None
    by_owner = _rotate(database, peppers, alice, again)
    assert by_owner.view.created_by == "bob@example.org"
    assert key_proof.authenticate(database, peppers, by_owner.key, address=None).role is Role.MEMBER


def test_rotation_gives_no_scope_that_its_principal_lacks(
    database: Database, peppers: Peppers, alice: Principal
) -> None:
    strong = _create(database, peppers, alice, scopes=("ocr", "chat"))
    weak = key_proof.authenticate(database, peppers, _create(database, peppers, alice).key, address=None)
    with pytest.raises(Forbidden):
        _rotate(database, peppers, weak, strong.view.id)
    assert _view(database, alice, strong.view.id).replaced_by is None


def test_one_new_key_is_made_when_rotated_five_times_at_once(
    database: Database, peppers: Peppers, alice: Principal
) -> None:
    old = _create(database, peppers, alice)
    results = at_once(5, lambda _: _rotate(database, peppers, alice, old.view.id))
    assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 4 + ["CreatedKey"]
    with database.reading() as session:
        assert len(session.scalars(select(ApiKey)).all()) == 2
