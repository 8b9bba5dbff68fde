"""The README tells the truth: its curl lines run, its settings and error codes are those of the program."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from portal import settings
from portal.api.contract import REFUSALS
from portal.ui.samples import named
from tests.running_portal import ROOT, RunningPortal

README = (ROOT / "README.md").read_text()


def test_all_settings_are_listed() -> None:
    shown = {name for name, _ in settings.load().rows()}
    assert set(re.findall(r"`(PORTAL_[A-Z_]+)`", README.partition("## Settings")[2])) >= shown


def test_all_error_codes_are_listed_with_their_status() -> None:
    rows = re.findall(r"^\| (\d\d\d[^|]*)\| (.*) \|$", README, re.MULTILINE)
    listed = {code: status for status, codes in rows for code in re.findall(r"`([a-z_]+)`", codes)}
    assert {code for code in REFUSALS if str(REFUSALS[code].status) not in listed.get(code, "")} == set()


def test_every_code_that_the_portal_gives_is_listed() -> None:
    sources = [path.read_text() for path in (ROOT / "portal").rglob("*.py") if path.name != "admin_commands.py"]
    given = {code for source in sources for code in re.findall(r'\bcode ?= ?"([a-z_]+)"', source)}
    listed = set(re.findall(r"`([a-z_]+)`", README.partition("## Errors")[2].partition("\n## ")[0]))
    of_the_command_line = {"settings", "tenant_unknown", "member_unknown", "scope_unknown"}
    assert given - listed - of_the_command_line == set()


def test_curl_lines_run_as_printed(portal: RunningPortal, tmp_path: Path) -> None:
    named("receipt").draw(tmp_path / "scan.png")
    portal.command("admin", "create-tenant", "--name", "reader", "--email", "r@r.example", "--password", "read me now")
    key = portal.command("admin", "create-key", "--tenant", "reader", "--scopes", "ocr,read").strip()
    blocks = [block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "curl" in block]
    assert len(blocks) == 4
    job = ""
    answers = []
    for block in blocks:
        script = block.replace("http://127.0.0.1:7860", portal.url)
        environ = {"PATH": "/usr/bin:/bin", "KEY": key, "URL": portal.url, "JOB": job}
        done = subprocess.run(
            ["sh", "-ec", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
        job = json.loads(done.stdout)["id"] if "-F files" in block else job
    assert json.loads(answers[0])["state"] == "succeeded"
    assert len(answers[1].split()) > 5
    asked = json.loads(answers[2])
    assert (asked["state"], asked["template"]["name"]) == ("succeeded", "receipt")
    [corrected] = json.loads(answers[3])["documents"]
    assert [value["value"] for value in corrected["values"] if value["checked_by"]] == [None, "19.00"]


def test_no_placeholder_is_left() -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", README, flags=re.DOTALL)
    assert re.findall(r"\b(?:TODO|TBD|FIXME|FIGURES|XXX)\b", prose) == []
