from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from portal.accounts.api_keys import ApiKeyView
from portal.domain import JobState, PageState, Principal, Role, Scope
from portal.jobs.history import Group
from portal.jobs.queries import JobView
from portal.ui import history_list, keys
from portal.ui.history_list import Asked, Shown
from tests.ui.conftest import ATTACK
from tests.ui.jobs import NOW, job, page


def key(name: str, **changes: object) -> ApiKeyView:
    values: dict[str, object] = {
        "id": f"key_{len(name)}",
        "name": name,
        "prefix": "ocr_ab12",
        "scopes": (Scope.OCR,),
        "created_at": NOW - timedelta(days=2),
        "expires_at": None,
        "last_used_at": None,
        "last_used_address": None,
        "revoked_at": None,
        "created_by": "maria@acme.example",
    }
    return ApiKeyView(**(values | changes))  # type: ignore[arg-type]


OWNER = Principal(
    tenant_id="ten_1",
    tenant_name=f"Acme {ATTACK}",
    member_id="mem_alice",
    email="alice@acme.example",
    role=Role.OWNER,
    is_admin=False,
    scopes=frozenset(),
)


def shown(group: Group, *jobs: JobView, has_older: bool = False) -> Shown:
    return Shown(group, jobs, has_older)


FAILED = job(JobState.PARTIAL, page(1, PageState.SUCCEEDED), page(2, PageState.FAILED))


def test_jobs_are_grouped_by_what_they_need_when_listed() -> None:
    groups = [
        shown(Group.ATTENTION, FAILED),
        shown(Group.RUNNING, job(JobState.RUNNING, page(1, PageState.RUNNING))),
        shown(Group.DONE, job(JobState.SUCCEEDED, page(1, PageState.SUCCEEDED, file_name=ATTACK))),
    ]
    listed = history_list.listing(groups, Asked(), NOW)
    assert re.findall(r"<h2>(.*?) <small>", listed) == ["Needs attention", "Running", "Done"]
    assert "1 of 2 pages, 1 failed, 0 charged" in listed
    assert "maria@acme.example · browser" in listed
    assert re.findall(r'data-action="(\w+)"', listed) == ["retry", "cancel", "delete"]
    assert re.findall(r'data-can="([^"]+)"', listed) == ["delete export retry", "cancel", "delete export"]
    assert "<img" not in listed


def test_older_jobs_are_linked_when_there_are_more() -> None:
    listed = history_list.listing([shown(Group.DONE, FAILED, has_older=True)], Asked(text="a&b"), NOW)
    assert "<small>1+</small>" in listed
    assert f'href="/history?q=a%26b&amp;group=done&amp;before={FAILED.cursor}"' in listed
    first = history_list.listing([shown(Group.DONE, FAILED)], Asked(), NOW)
    assert "before=" not in first
    assert "All groups" not in first
    later = history_list.listing([shown(Group.DONE, FAILED)], Asked(Group.DONE, "", "job_9"), NOW)
    assert re.findall(r'href="(/history[^"]*)">(\w+)', later) == [
        ("/history?group=done", "Newest"),
        ("/history", "All"),
    ]


def test_the_reason_is_told_when_nothing_is_listed() -> None:
    none = [shown(group) for group in Group]
    assert "Nothing read yet" in history_list.listing(none, Asked(), NOW)
    assert "&lt;img" in history_list.listing(none, Asked(text=ATTACK), NOW)
    assert "No job is under" in history_list.listing([shown(Group.RUNNING)], Asked(Group.RUNNING), NOW)
    assert 'value="&lt;img' in history_list.head(ATTACK)


def test_last_use_is_told_before_a_key_is_revoked() -> None:
    used = key("importer", last_used_at=NOW - timedelta(hours=3), last_used_address="10.0.0.4")
    listed = keys.listing([used], NOW, OWNER, {used.id: (3, 1200)})
    assert 'data-detail="It was used 3 h ago from 10.0.0.4.' in listed


def test_members_are_offered_only_what_they_may_do_with_a_key() -> None:
    theirs = key("backup", id="key_alice", member_id="mem_alice", created_by="alice@acme.example")
    own = key("importer", id="key_bob", member_id="mem_bob", created_by="bob@acme.example")
    none = key("first", id="key_none", member_id=None, created_by=None)
    bob = replace(OWNER, member_id="mem_bob", email="bob@acme.example", role=Role.MEMBER)
    targets = re.compile(r'data-action="\w+" data-target="(\w+)"')
    assert targets.findall(keys.listing([theirs, own, none], NOW, bob, {})) == ["key_bob", "key_bob"]
    assert len(targets.findall(keys.listing([theirs, own, none], NOW, OWNER, {}))) == 6
    owners = re.findall(r"<small>Owner</small><span>(.*?)</span>", keys.listing([theirs, own, none], NOW, bob, {}))
    assert owners == ["alice@acme.example", "you", "the operator"]


def test_only_usable_keys_can_be_revoked_when_listed() -> None:
    ended = [key("old", expires_at=NOW - timedelta(days=1)), key("stopped", revoked_at=NOW)]
    listed = keys.listing([*ended, key(ATTACK)], NOW, OWNER, {})
    assert listed.count('data-action="revoke"') == 1
    assert listed.index("&lt;img") < listed.index(">old<") < listed.index(">stopped<")
    assert "<img" not in listed


def test_replaced_key_follows_its_replacement_when_listed() -> None:
    new, other = key("importer", id="key_new", prefix="ocr_new"), key("other", id="key_other")
    old = key("importer", id="key_old", prefix="ocr_old", replaced_by="key_new", expires_at=NOW + timedelta(hours=5))
    listed = keys.listing([other, new, old], NOW, OWNER, {})
    assert re.findall(r'data-key="(\w+)"', listed) == ["key_other", "key_new", "key_old"]
    assert "Being replaced" in listed
    assert "ends 2026-03-12 14:30 UTC" in listed
    assert "takes the place of ocr_old…" in listed
    assert re.findall(r'data-action="(\w+)"', listed) == ["rotate", "revoke"] * 2 + ["revoke"]


def test_command_is_one_that_the_keys_scopes_allow() -> None:
    own = (
        (Scope.OCR, "/v1/jobs?wait=60"),
        (Scope.READ, "/v1/jobs"),
        (Scope.CHAT, "/v1/models"),
        (Scope.PROMPT, "/v1/me"),
    )
    for scope, part in own:
        shown_key = keys.new_key(key("k", scopes=(scope,)), "ocr_a_b", "http://x")
        assert f"http://x{part}&#34;</code>" in shown_key
