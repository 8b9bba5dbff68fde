"""What Python sends to the viewer, and the code that repeats a run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import replace

import pytest

from portal.domain import JobState, PageState, Task, TaskPrompt
from portal.engine.fields.specs import specs_from_names
from portal.jobs.queries import JobView
from portal.ui import run_code, viewer
from tests.ui.conftest import ATTACK
from tests.ui.jobs import document, job, page

DONE, FAILED, QUEUED = PageState.SUCCEEDED, PageState.FAILED, PageState.QUEUED
BASE = "https://ocr.example.com"


def code(shown: JobView) -> dict[str, str]:
    return run_code.for_job(shown, BASE)


def test_standing_is_a_letter_and_a_count_a_page() -> None:
    pages = (replace(page(1, DONE), lines_to_check=3), page(2, DONE, is_blank=True), page(3, FAILED), page(4, QUEUED))
    assert json.loads(viewer.standing(job(JobState.RUNNING, *pages))) == {
        "id": "job_1",
        "pages": "sbfq",
        "checks": [3, None, None, None],
    }


def test_a_long_job_costs_little_at_each_tick() -> None:
    pages = [replace(page(number, DONE), lines_to_check=number % 20) for number in range(1, 301)]
    assert len(viewer.standing(job(JobState.RUNNING, *pages))) < 1500


def test_pages_are_grouped_by_document_when_described() -> None:
    several = job(JobState.RUNNING, page(1, DONE, file_name="a.pdf"), page(2, DONE, file_name=ATTACK))
    described = json.loads(viewer.described(several, BASE))
    assert described["documents"] == [{"name": "a.pdf", "numbers": [1]}, {"name": ATTACK, "numbers": [2]}]
    assert set(described["outcomes"]) == set("qrfcb")
    assert set(described["states"]) == set("qrsfcb")


def test_no_template_sees_a_value() -> None:
    component = viewer.page_viewer("viewer")
    assert component.html_template == ""
    quoted = re.findall(r"'([^']*)'", str(component.js_on_load))  # names in quotes become events
    assert quoted == ["viewer/viewer.js", "submit"]


def test_code_names_the_run_as_it_was_submitted() -> None:
    shown = job(JobState.SUCCEEDED, page(2, DONE), page(3, DONE), page(7, DONE))
    shown = replace(
        shown,
        documents=(document("letter.pdf", pages=9),),
        prompt=TaskPrompt(Task.FIELDS, fields=specs_from_names(("date", 'the "total"'))),
    )
    command = shlex.split(code(shown)["curl"].split("# Fetch")[0], comments=True)
    assert f"{BASE}/v1/jobs?wait=60" in command
    assert 'files=@"letter.pdf"' in command
    assert "task=fields" in command
    assert 'fields=["date", "the \\"total\\""]' in command
    assert 'options={"engine": "embedded", "pages": "2-3,7"}' in command
    assert f"{BASE}/v1/jobs/job_1/result?format=json" in code(shown)["curl"]  # the values
    read = replace(shown, prompt=TaskPrompt(Task.EXTRACT))
    assert f"{BASE}/v1/jobs/job_1/result?format=markdown" in code(read)["curl"]


def test_code_says_no_pages_when_all_were_read() -> None:
    shown = replace(job(JobState.SUCCEEDED, page(1, DONE)), documents=(document("letter.pdf", pages=1),))
    assert "pages" not in code(shown)["curl"].split("options=")[1].splitlines()[0]


@pytest.mark.parametrize("name", [ATTACK, "it's $(date) `date`;.png", 'a"b\\c.png', "-o x.png", "Größe 表.png"])
def test_names_stay_data_when_a_file_name_carries_code(name: str) -> None:
    snippets = code(job(JobState.SUCCEEDED, page(1, DONE, file_name=name)))
    words = shlex.split(snippets["curl"], comments=True)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    assert f'files=@"{quoted}"' in words
    assert name in [constant for constant in compile(snippets["python"], "run", "exec").co_consts if constant]
    checked = subprocess.run(["bash", "-n"], input=snippets["curl"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0
