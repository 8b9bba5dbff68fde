"""/docs and /openapi.json: complete, local, and each printed curl line does what it says when it is run."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.api.contract import REFUSALS
from portal.api.openapi import TAGS, base_url
from portal.domain import Scope
from portal.settings import ServerSettings
from tests.api.conftest import Persona, Portal, admin_of, pdf, png

_CURL = re.compile(r'<article id="([^"]+)">.*?<pre class="curl" tabindex="0"><code>(.*?)</code></pre>', re.DOTALL)
_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def page(live: Portal) -> str:
    """The reference page as it is served."""
    reply = httpx.get(f"{live.url}/docs")
    assert (reply.status_code, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    return reply.text


@pytest.fixture
def document(live: Portal) -> dict[str, Any]:
    """The OpenAPI document as it is served."""
    body: dict[str, Any] = httpx.get(f"{live.url}/openapi.json").json()
    return body


def _operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def _run(line: str, folder: Path, **environ: str) -> str:
    """What the example prints, run by a shell in a folder with the two scans."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_does_what_it_says(
    live: Portal, alice: Persona, bob: Persona, people: Callable[..., Persona], page: str, tmp_path: Path
) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(1))
    (tmp_path / "scan.png").write_bytes(png())
    examples = {anchor: html.unescape(line) for anchor, line in _CURL.findall(page)}
    ran: set[str] = set()

    def run(name: str, **environ: str) -> Any:
        [anchor] = [anchor for anchor in examples if anchor.startswith(name)]
        ran.add(anchor)
        printed = _run(examples[anchor], tmp_path, **({"KEY": alice.key} | environ))
        return printed if name in ("fetch_result", "download_audit") else json.loads(printed or "null")

    job = run("create_job")
    assert (job["state"], job["page_count"]) == ("succeeded", 2)
    assert run("list_jobs")["data"][0]["id"] == job["id"]
    assert run("show_job", JOB=job["id"])["pages_done"] == 2
    assert "Total 9.00" in run("fetch_result", JOB=job["id"])
    run("fetch_page_image", JOB=job["id"])
    assert (tmp_path / "page-1.jpg").read_bytes().startswith(b"\xff\xd8")
    assert run("read_document")["pages"][0]["markdown"] == "Total 9.00"
    assert run("show_fields", JOB=job["id"])["code"] == "no_fields"
    assert run("correct_fields", JOB=job["id"])["code"] == "no_fields"
    assert run("cancel_job", JOB=job["id"])["code"] == "conflict"
    assert run("retry_job", JOB=job["id"])["code"] == "page_not_failed"
    assert run("delete_job", JOB=job["id"]) is None
    assert alice.client.get(f"/v1/jobs/{job['id']}").status_code == 404
    assert run("list_deletions")["data"][0]["target"] == job["id"]
    assert run("show_template")["is_built_in"]
    saved = run("save_template")
    assert (saved["name"], saved["version"]) == ("delivery notes", 1)
    assert "delivery notes" in [one["name"] for one in run("list_templates")["data"]]
    assert run("delete_template") is None
    assert run("list_models")["data"][0]["id"] == "fake"
    assert run("show_me")["tenant"]["id"] == alice.principal.tenant_id
    price = run("ask_price")
    assert (price["pages"], price["free_pages"]) == (0, 1)  # it was read above
    chatting = people(alice.principal, scopes=(Scope.CHAT,))
    assert run("complete_chat", KEY=chatting.key)["code"] == "task_unavailable"
    assert run("show_usage")["total"]["charged"] == 2, "what read_document sent was read before, so it was free"
    run("download_usage")
    assert len((tmp_path / "usage.csv").read_text().splitlines()) == 3
    made = run("create_key")
    assert made["name"] == "nightly import"
    assert len(run("list_keys")["data"]) == 4
    assert run("rotate_key", KEY_ID=made["id"])["name"] == "nightly import"
    assert run("revoke_key", KEY_ID=made["id"])["revoked_at"]
    _run_as_admin(run, live, people)
    owner = people(alice.principal, scopes=(Scope.READ, Scope.MEMBERS))
    assert run("list_members")["data"][0]["id"] == alice.principal.member_id
    other = bob.principal.member_id or ""
    assert run("change_member", KEY=owner.key, MEMBER_ID=other)["role"] == "owner"
    assert run("remove_member", KEY=owner.key, MEMBER_ID=other) is None
    invited = run("create_invite", KEY=owner.key)
    assert "/invite#" in invited["link"]
    assert len(run("list_invites", KEY=owner.key)["data"]) == 1
    assert run("revoke_invite", KEY=owner.key, INVITE_ID=invited["id"])["id"] == invited["id"]
    assert run("livez") == {"status": "ok"}
    assert run("readyz")["status"] == "ready"
    assert ran == set(examples)


def _run_as_admin(run: Callable[..., Any], live: Portal, people: Callable[..., Persona]) -> None:
    key = people(admin_of(live), scopes=tuple(Scope)).key
    tenant = run("create_tenant", KEY=key)["tenant"]
    named = {"KEY": key, "TENANT": tenant["id"]}
    assert tenant["id"] in [row["id"] for row in run("list_tenants", **named)["data"]]
    assert run("show_tenant", **named)["name"] == "acme"
    assert run("set_quota", **named)["effects"][0]["new"] == 500
    assert run("undo_quota", **named, CHANGE="chg_0")["code"] == "change_unknown"
    assert run("set_state", **named)["state"] == "no_new_jobs"
    assert run("create_plan", **named)["limits"]["pages_per_day"] == 1000
    assert run("edit_plan", **named)["limits"]["weight"] == 2
    assert "team" in [plan["name"] for plan in run("list_plans", **named)["data"]]
    assert run("choose_registration", **named)["mode"] == "invite"
    assert run("show_registration", **named) == {"mode": "invite", "is_fixed": False}
    assert run("list_requests", **named)["object"] == "list"
    for decision in ("grant", "decline"):
        assert run(f"{decision}_", **named, REQUEST="ask_0")["code"] == "quota_request_unknown"
    assert tenant["id"] in [row["tenant_id"] for row in run("dry_run", **named)["data"]]
    assert run("read_audit", **named)["object"] == "list"
    assert run("download_audit", **named) == ""
    assert run("show_fleet", **named)["is_configured"] is False
    for order in ("drain_instance", "restart_instances"):
        assert run(order, **named)["code"] == "fleet_not_configured"
    assert run("delete_tenant", **named)["gone"]["members"] == 1


def test_python_example_reads_a_document(live: Portal, alice: Persona, page: str, tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(1))
    found = re.search(r'<pre class="python" tabindex="0"><code>(.*?)</code></pre>', page, re.DOTALL)
    assert found is not None
    script = f"KEY = {alice.key!r}\n{html.unescape(found[1])}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "Total 9.00\n", done.stderr


def test_every_route_stands_on_the_page_under_its_tag(document: dict[str, Any], page: str) -> None:
    tags = {name for name, _ in TAGS}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert set(operation["tags"]) <= tags, path
            assert f'id="{operation["operationId"]}"' in page, path
            assert html.escape(path) in page


def test_every_route_is_described_with_an_example_and_its_errors(document: dict[str, Any]) -> None:
    operations = _operations(document)
    assert set(operations) == {
        "POST /v1/ocr",
        "POST /v1/chat/completions",
        "GET /v1/deletions",
        "POST /v1/jobs",
        "GET /v1/jobs",
        "GET /v1/jobs/{job_id}",
        "GET /v1/jobs/{job_id}/result",
        "GET /v1/jobs/{job_id}/pages/{position}/image",
        "GET /v1/jobs/{job_id}/fields",
        "PATCH /v1/jobs/{job_id}/fields",
        "POST /v1/jobs/{job_id}/cancel",
        "POST /v1/jobs/{job_id}/retry",
        "DELETE /v1/jobs/{job_id}",
        "GET /v1/templates",
        "POST /v1/templates",
        "GET /v1/templates/{name}",
        "DELETE /v1/templates/{name}",
        "GET /v1/models",
        "GET /v1/usage",
        "GET /v1/usage.csv",
        "POST /v1/price",
        "GET /v1/me",
        "GET /v1/keys",
        "GET /v1/members",
        "PATCH /v1/members/{member_id}",
        "DELETE /v1/members/{member_id}",
        "GET /v1/invites",
        "POST /v1/invites",
        "DELETE /v1/invites/{invite_id}",
        "POST /v1/keys",
        "POST /v1/keys/{key_id}/rotate",
        "DELETE /v1/keys/{key_id}",
        "GET /v1/admin/tenants",
        "POST /v1/admin/tenants",
        "GET /v1/admin/tenants/{tenant_id}",
        "PUT /v1/admin/tenants/{tenant_id}/state",
        "POST /v1/admin/tenants/{tenant_id}/delete",
        "PUT /v1/admin/tenants/{tenant_id}/quota",
        "POST /v1/admin/tenants/{tenant_id}/quota/{change_id}/undo",
        "GET /v1/admin/registration",
        "PUT /v1/admin/registration",
        "GET /v1/admin/plans",
        "POST /v1/admin/plans",
        "PATCH /v1/admin/plans/{name}",
        "GET /v1/admin/quota-requests",
        "POST /v1/admin/quota-requests/{request_id}/grant",
        "POST /v1/admin/quota-requests/{request_id}/decline",
        "POST /v1/admin/dry-run",
        "GET /v1/admin/audit",
        "GET /v1/admin/audit.csv",
        "GET /v1/admin/fleet",
        "POST /v1/admin/fleet/drain",
        "POST /v1/admin/fleet/restart",
        "GET /livez",
        "GET /readyz",
    }
    for name, operation in operations.items():
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["x-codeSamples"], name
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (name, parameter["name"])
        if "/v1/" in name:
            assert operation["security"] == [{"API key": []}]
            assert "application/problem+json" in operation["responses"]["401"]["content"]


def test_references_of_the_document_resolve(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    named = set(re.findall(r"#/components/schemas/([^\"]+)", json.dumps(document)))
    assert named <= set(schemas)
    assert "Problem" in named
    assert "HTTPValidationError" not in schemas


def test_every_error_code_is_listed_with_its_status(page: str) -> None:
    for code, refusal in REFUSALS.items():
        assert f'<tr id="error-{code}"><td>{refusal.status}</td>' in page


class _Addresses(HTMLParser):
    """Collects where a page sends a browser by itself, and whether it runs anything."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.anchors: list[str] = []
        self.is_active = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.is_active |= tag in ("iframe", "style") or any(name.startswith("on") for name in given)
        self.is_active |= "style" in given
        if tag in ("link", "img", "script"):
            self.loaded.append(str(given.get("href") or given.get("src")))
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a" and str(given.get("href")).startswith("#"):
            self.anchors.append(str(given["href"])[1:])


def test_page_loads_our_own_files_only_and_runs_nothing_written_into_it(page: str) -> None:
    found = _Addresses()
    found.feed(page)
    assert found.loaded
    assert all((_ROOT / path.removeprefix("/")).is_file() for path in found.loaded)
    assert not found.is_active
    assert set(found.anchors) <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))


@pytest.mark.parametrize(
    ("server", "address"),
    [
        (ServerSettings(), "http://127.0.0.1:7860"),
        (ServerSettings(host="0.0.0.0", port=80), "http://127.0.0.1:80"),
        (ServerSettings(host="::1"), "http://[::1]:7860"),
        (ServerSettings(public_url="https://ocr.example.org"), "https://ocr.example.org"),
    ],
)
def test_examples_name_the_portals_own_address(live: Portal, server: ServerSettings, address: str) -> None:
    assert base_url(dataclasses.replace(live.services.settings, server=server)) == address


def _cells(page: str, article: str, name: str) -> str:
    """Kind and meaning of a row in the table of an article, as text."""
    [found] = re.findall(rf'<article id="{article}.*?</article>', page, re.DOTALL)
    [row] = re.findall(rf"<tr><th scope=\"row\"><code>{re.escape(name)}</code>.*?</tr>", found, re.DOTALL)[:1]
    return html.unescape(re.sub(r"<[^>]+>", " ", row))


def test_options_of_a_job_are_described_key_by_key(page: str) -> None:
    assert "default default" in _cells(page, "create_job", "options.engine")
    assert "counted from 1" in _cells(page, "create_job", "options.pages")
    assert "at most 10000 characters" in _cells(page, "create_job", "options.pages")
    assert "translate" in _cells(page, "create_job", "options.language")


def test_pages_are_told_apart_by_what_they_count_from(page: str) -> None:
    assert "counted from 0" in _cells(page, "read_document", "pages")
    assert "list of integer or string" in _cells(page, "read_document", "pages")
    assert "string" in _cells(page, "create_job", "options.pages")


def test_bounds_and_defaults_are_described(page: str) -> None:
    assert "at least 0, at most 60, default 0" in _cells(page, "create_job", "wait (query)")
    assert "more than 0, at most 300, default 300" in _cells(page, "read_document", "wait (query)")
    assert "at least 1, at most 100, default 50" in _cells(page, "list_jobs", "limit (query)")
    assert "at most 2147483647" in _cells(page, "fetch_page_image", "position (path)")
