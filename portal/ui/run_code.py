"""Code that repeats a run: the same files, task and options through the API, and the text of this job. Pure.

File names, fields and languages come from outside, so each is quoted for the language that it stands in.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.domain import Mode, Task, TaskPrompt
from portal.engine.fields.specs import specs_from_names, specs_to_json
from portal.jobs.page_numbers import written_page_numbers
from portal.jobs.queries import JobView
from portal.results.export import ExportFormat

KEY_PLACEHOLDER = "your-api-key"


@dataclass(frozen=True)
class _Run:
    base_url: str
    job_id: str
    names: Sequence[str]
    form: Mapping[str, str]
    format: ExportFormat


def for_job(job: JobView, base_url: str) -> dict[str, str]:
    """curl, python and javascript for the job; the key is a placeholder."""
    run = _Run(
        base_url,
        job.id,
        [document.file_name for document in job.documents],
        _form(job),
        ExportFormat.JSON if job.prompt.task is Task.FIELDS else ExportFormat.MARKDOWN,  # the values, or the text
    )
    return {"curl": _curl(run), "python": _python(run), "javascript": _javascript(run)}


def _form(job: JobView) -> dict[str, str]:
    """The plain parts of the form, as POST /v1/jobs takes them."""
    options = {"engine": job.engine}
    pages = _chosen_pages(job)
    if pages:
        options["pages"] = pages
    if job.prompt.language:
        options["language"] = job.prompt.language
    if job.prompt.mode is not Mode.DOCUMENT:
        options["mode"] = job.prompt.mode
    form = {"task": str(job.prompt.task)}
    if job.prompt.task is Task.FIELDS:
        form |= _asked_fields(job.prompt)
    return form | {"options": json.dumps(options, ensure_ascii=False)}


def _asked_fields(prompt: TaskPrompt) -> dict[str, str]:
    """The template, the bare names where they say it all, else the rows."""
    names = list(prompt.field_names)
    if prompt.template is not None:
        return {"template": prompt.template.name}
    is_named = prompt.fields == specs_from_names(names)
    return {"fields": json.dumps(names if is_named else specs_to_json(prompt.fields), ensure_ascii=False)}


def _chosen_pages(job: JobView) -> str:
    """The page choice, '' for all pages. One choice counts for all files of a job."""
    counts = {document.id: document.page_count for document in job.documents}
    chosen: dict[str, list[int]] = {}
    for page in job.pages:
        chosen.setdefault(page.document_id, []).append(page.number)
    is_all = all(len(numbers) == counts.get(id, len(numbers)) for id, numbers in chosen.items())
    return "" if is_all else written_page_numbers(number for numbers in chosen.values() for number in numbers)


def _curl(run: _Run) -> str:
    parts = [f"-F {shlex.quote(f'files=@{_curl_name(name)}')}" for name in run.names]
    # --form-string: in -F a value's ';' and a leading '@' or '<' have a meaning.
    parts += [f"--form-string {shlex.quote(f'{name}={value}')}" for name, value in run.form.items()]
    lines = [f'curl -sS {shlex.quote(f"{run.base_url}/v1/jobs?wait=60")} -H "Authorization: Bearer $KEY"', *parts]
    result = shlex.quote(f"{run.base_url}/v1/jobs/{run.job_id}/result?format={run.format}")
    return (
        f"KEY={KEY_PLACEHOLDER}\n\n# Run it again\n"
        + " \\\n  ".join(lines)
        + f'\n\n# Fetch what this run read\ncurl -sS {result} -H "Authorization: Bearer $KEY"'
    )


def _curl_name(name: str) -> str:
    """A file name inside -F: in double quotes, where only a double quote and a backslash are special."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _python(run: _Run) -> str:
    files = "\n".join(f'    ("files", open({_literal(name)}, "rb")),' for name in run.names)
    parts = "\n".join(f"    {_literal(name)}: {_literal(value)}," for name, value in run.form.items())
    return f"""import httpx

portal = httpx.Client(
    base_url={_literal(run.base_url)},
    headers={{"Authorization": "Bearer {KEY_PLACEHOLDER}"}},
    timeout=90,
)
files = [
{files}
]
form = {{
{parts}
}}
job = portal.post("/v1/jobs", params={{"wait": 60}}, files=files, data=form).raise_for_status().json()
while job["state"] in ("queued", "running"):
    job = portal.get(f"/v1/jobs/{{job['id']}}", params={{"wait": 60}}).raise_for_status().json()
result = portal.get(f"/v1/jobs/{{job['id']}}/result", params={{"format": "{run.format}"}})
print(result.raise_for_status().text)"""


def _javascript(run: _Run) -> str:
    files = "\n".join(
        f'form.append("files", await openAsBlob({_literal(name)}), {_literal(name)});' for name in run.names
    )
    parts = "\n".join(f"form.append({_literal(name)}, {_literal(value)});" for name, value in run.form.items())
    return f"""import {{ openAsBlob }} from "node:fs"; // Node.js 20 or newer, as a module (.mjs)

const portal = async (path, options = {{}}) => {{
  const headers = {{ Authorization: "Bearer {KEY_PLACEHOLDER}" }};
  const answer = await fetch({_literal(run.base_url)} + path, {{ ...options, headers }});
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}};
const form = new FormData();
{files}
{parts}
let job = await (await portal("/v1/jobs?wait=60", {{ method: "POST", body: form }})).json();
while (["queued", "running"].includes(job.state)) {{
  job = await (await portal(`/v1/jobs/${{job.id}}?wait=60`)).json();
}}
console.log(await (await portal(`/v1/jobs/${{job.id}}/result?format={run.format}`)).text());"""


def _literal(text: str) -> str:
    """A string literal that Python and JavaScript read alike; quotes, backslashes and control characters escaped."""
    return json.dumps(text, ensure_ascii=False)
