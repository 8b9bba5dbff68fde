from __future__ import annotations

import re
from datetime import timedelta

from portal.accounts.api_keys import ApiKeyView
from portal.domain import JobState, PageState, Scope
from portal.ui import history, keys
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


def test_jobs_are_grouped_by_what_they_need_when_listed() -> None:
    listed = history.listing(
        [
            job(JobState.SUCCEEDED, page(1, PageState.SUCCEEDED, file_name=ATTACK)),
            job(JobState.RUNNING, page(1, PageState.RUNNING)),
            job(JobState.PARTIAL, page(1, PageState.SUCCEEDED), page(2, PageState.FAILED)),
        ],
        NOW,
        is_first=True,
    )
    assert re.findall(r"<h2>(.*?) <small>", listed) == ["Needs attention", "Running", "Done"]
    assert "1 of 2 pages, 1 failed" in listed
    assert "maria@acme.example · browser" in listed
    assert re.findall(r'data-action="(\w+)"', listed) == ["delete", "cancel", "delete"]
    assert "<img" not in listed


def test_older_jobs_are_linked_when_the_list_is_full() -> None:
    full = [job(JobState.SUCCEEDED, page(1, PageState.SUCCEEDED))] * 50
    assert f"/history?before={full[-1].cursor}" in history.listing(full, NOW, is_first=True)
    assert "before=" not in history.listing(full[:49], NOW, is_first=True)
    assert "Nothing read yet" in history.listing([], NOW, is_first=True)


def test_last_use_is_told_before_a_key_is_revoked() -> None:
    used = key("importer", last_used_at=NOW - timedelta(hours=3), last_used_address="10.0.0.4")
    listed = keys.listing([used], NOW)
    assert 'data-detail="It was used 3 h ago from 10.0.0.4.' in listed


def test_only_usable_keys_can_be_revoked_when_listed() -> None:
    ended = [key("old", expires_at=NOW - timedelta(days=1)), key("stopped", revoked_at=NOW)]
    listed = keys.listing([*ended, key(ATTACK)], NOW)
    assert listed.count('data-action="revoke"') == 1
    assert listed.index("&lt;img") < listed.index(">old<") < listed.index(">stopped<")
    assert "<img" not in listed
