"""No route of the whole application reads a stranger's body past its bound, whether that says its length or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from portal.http.bodies import MAX_BODY_BYTES
from tests.http.strangers import CHUNK, Told
from tests.running_portal import ROOT


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    """What every route made of a large body without a key; the last one's was just within the bound."""
    environ = os.environ | {
        "PORTAL_DATA_DIR": str(tmp_path_factory.mktemp("portal") / "data"),
        "PORTAL_EMBEDDED": "off",
    }
    environ |= {"PORTAL_VLLM_URL": "http://127.0.0.1:9/v1", "PORTAL_VLLM_MODEL": "lightonai/LightOnOCR-2-1B"}
    command = [sys.executable, "-m", "tests.http.strangers"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return [Told(**each) for each in json.loads(done.stdout.splitlines()[-1])]


def test_strangers_body_is_never_read_past_the_bound(told: list[Told]) -> None:
    for one in told[:-1]:
        most = 0 if one.says_length else MAX_BODY_BYTES + len(CHUNK)
        assert one.taken <= most, one
        assert 300 <= one.status < 500, one


def test_json_past_the_bound_is_refused_in_words_before_it_is_parsed(told: list[Told]) -> None:
    asked = [one for one in told[:-1] if one.takes_json]
    assert {"/v1/keys", "/v1/templates", "/v1/jobs/x/retry", "/v1/admin/plans"} <= {one.path for one in asked}
    for one in asked:
        problem = json.loads(one.body)
        assert (one.status, problem["code"]) == (413, "request_too_large"), one
        assert "1 MiB" in problem["detail"], one
        assert problem["remedy"], one


def test_form_past_the_bound_is_refused_by_a_page(told: list[Told]) -> None:
    asked = [one for one in told if one.path in ("/login", "/signup")]
    assert len(asked) == 4
    for one in asked:
        assert one.status == 413, one
        assert "<html" in one.body, one


def test_body_within_the_bound_is_read_and_its_caller_asked_for(told: list[Told]) -> None:
    problem = json.loads(told[-1].body)
    assert (told[-1].path, problem["code"]) == ("/v1/keys", "unauthenticated")
