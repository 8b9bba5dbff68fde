"""What the API promises beside its bodies: each error code with its status, and which route may answer which.

The routes declare their errors from here, so that the OpenAPI document, /docs and the tests read one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from portal.api.job_orders import JobOptions
from portal.domain import Scope, Task
from portal.http.problems import PROBLEM_MEDIA_TYPE

_BODY_ERRORS = ("malformed_body", "invalid_request", "file_too_large", "file_type_unknown")
_FILE_ERRORS = (
    *("file_empty", "file_corrupt", "file_encrypted", "file_unreadable"),
    *("too_many_pages", "too_many_pixels", "page_out_of_range"),
)
_ORDER_ERRORS = (
    *("unknown_model", "task_unavailable", "backlog_full", "intake_busy", "too_many_in_flight"),
    *("unavailable", "storage_full", "storage_unavailable"),
)

Responses = dict[int | str, dict[str, Any]]


@dataclass(frozen=True)
class Refusal:
    """An error code's HTTP status and what it means."""

    status: int
    meaning: str


REFUSALS: Mapping[str, Refusal] = {
    "malformed_body": Refusal(400, "The body is not the JSON or the form that the route takes."),
    "unauthenticated": Refusal(401, "No API key was sent."),
    "api_key_invalid": Refusal(401, "The API key is unknown."),
    "api_key_revoked": Refusal(401, "The API key was revoked."),
    "api_key_expired": Refusal(401, "The API key has expired."),
    "scope_lacking": Refusal(403, "The API key lacks the scope that the route needs."),
    "scope_not_allowed": Refusal(403, "A key cannot give a scope that it does not have."),
    "expiry_not_allowed": Refusal(403, "A key cannot make one that outlives it."),
    "api_key_of_other_member": Refusal(403, "The key is another member's; its member or an owner may revoke it."),
    "keys_not_allowed": Refusal(403, "Only an owner's key with scope ocr or admin manages keys."),
    "not_found": Refusal(404, "It does not exist, or is another tenant's."),
    "api_key_unknown": Refusal(404, "There is no such key in your tenant."),
    "method_not_allowed": Refusal(405, "The route does not take this method; Allow says which it takes."),
    "conflict": Refusal(409, "The job's state does not allow it."),
    "job_not_finished": Refusal(
        409, "The job is queued or running; with partial=true: no page of it is read yet. Wait."
    ),
    "no_fields": Refusal(409, "CSV is asked of a job that is not of the task fields."),
    "no_result": Refusal(409, "The job is over and no page of it was read; its pages say why."),
    "page_not_failed": Refusal(409, "A page that is to be retried has not failed; only failed ones are."),
    "nothing_to_retry": Refusal(409, "No page of the job has failed."),
    "api_key_ended": Refusal(409, "The key was revoked or has expired, so it cannot be rotated."),
    "api_key_replaced": Refusal(409, "The key is being replaced already."),
    "job_cancelled": Refusal(409, "The job was cancelled while the request waited."),
    "file_too_large": Refusal(413, "A file, or the whole body, is larger than /v1/me allows."),
    "file_type_unknown": Refusal(415, "The file is of no kind that can be read."),
    "invalid_request": Refusal(422, "A parameter is missing, malformed or out of range; the detail names it."),
    "no_files": Refusal(422, "The form has no file."),
    "too_many_files": Refusal(422, "The form has more files than a job takes."),
    "file_empty": Refusal(422, "The file has no bytes."),
    "file_corrupt": Refusal(422, "The file is damaged, or the data: URL is not base64."),
    "file_encrypted": Refusal(422, "The PDF needs a password."),
    "file_unreadable": Refusal(422, "The file cannot be opened within the limits."),
    "too_many_pages": Refusal(422, "The document has too many pages."),
    "too_many_pixels": Refusal(422, "A page is too large in pixels."),
    "page_out_of_range": Refusal(422, "The page selection names a page that a document does not have."),
    "unknown_model": Refusal(422, "No engine and no checkpoint has this name; /v1/models lists them."),
    "task_unavailable": Refusal(422, "The engine cannot do this task; /v1/models says why."),
    "option_not_offered": Refusal(422, "An option of Mistral's API that this portal cannot honour."),
    "url_refused": Refusal(422, "A remote URL: the portal fetches none."),
    "no_page_read": Refusal(422, "Every page failed; the remedy is the first page's."),
    "api_key_name": Refusal(422, "The key's name is empty or has characters that cannot be shown."),
    "scope_missing": Refusal(422, "A key needs at least one scope."),
    "expiry_invalid": Refusal(422, "The expiry has no time zone or is past."),
    "too_many_in_flight": Refusal(429, "Your tenant has as many pages waiting as it may; see Retry-After."),
    "internal": Refusal(500, "A fault of the portal; tell the operator the request_id."),
    "backlog_full": Refusal(503, "The whole portal has as much waiting work as it may hold; see Retry-After."),
    "intake_busy": Refusal(503, "Too many files, of yours or of all, are being opened right now; see Retry-After."),
    "unavailable": Refusal(503, "A part that is needed does not answer; see Retry-After. A job_id: the job goes on."),
    "storage_full": Refusal(503, "The portal's disk is full."),
    "storage_unavailable": Refusal(503, "The portal's storage does not work."),
    "still_running": Refusal(504, "The wait elapsed; the job goes on under its job_id."),
}

JOB_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "contentMediaType": "application/octet-stream"},
                            "description": "PDF, PNG, JPEG, TIFF, WebP, BMP, GIF, AVIF or HEIC; may be repeated",
                        },
                        "task": {
                            "type": "string",
                            "enum": [task.value for task in Task],
                            "default": Task.EXTRACT.value,
                            "description": "What is asked of each page; /v1/models says who can do it",
                        },
                        "fields": {
                            "type": "string",
                            "description": "For the task fields: names with commas, a JSON list of names or of rows "
                            "as templates have them, or a JSON Schema (an object of scalars, arrays of scalars and "
                            "arrays of objects)",
                            "examples": ["invoice number, total"],
                        },
                        "schema": {
                            "type": "string",
                            "contentMediaType": "application/json",
                            "description": "The same as a JSON Schema in `fields`",
                        },
                        "template": {
                            "type": "string",
                            "description": "The name of a template of /v1/templates, in place of `fields`",
                            "examples": ["receipt"],
                        },
                        "options": {
                            "type": "string",
                            "contentMediaType": "application/json",
                            "contentSchema": JobOptions.model_json_schema(),
                            "description": "A JSON object",
                            "examples": ['{"pages": "1-3,7"}'],
                        },
                    },
                }
            }
        },
    }
}


def authenticated(*codes: str) -> Responses:
    """The errors of a route for any key, and `codes`."""
    return problems("unauthenticated", "api_key_invalid", "api_key_revoked", "api_key_expired", *codes)


def reading(*codes: str) -> Responses:
    """The errors of a route that needs the scope `read`."""
    return _scoped(Scope.READ, *codes)


def writing(*codes: str) -> Responses:
    """The errors of a route that needs the scope `ocr`."""
    return _scoped(Scope.OCR, *codes)


def job_submission() -> Responses:
    """What POST /v1/jobs answers beside 202."""
    finished: Responses = {200: {"description": "Finished within `wait`; the body is the same"}}
    own = ("no_files", "too_many_files", "not_found")
    return finished | writing(*own, *_BODY_ERRORS, *_FILE_ERRORS, *_ORDER_ERRORS)


def job_retry() -> Responses:
    """What POST …/retry answers beside 202."""
    finished: Responses = {200: {"description": "Finished within `wait`; the body is the same"}}
    own = ("not_found", "page_not_failed", "nothing_to_retry", "page_out_of_range")
    rest = ("malformed_body", "invalid_request", "unknown_model", "task_unavailable", "backlog_full", "unavailable")
    return finished | writing(*own, *rest)


def ocr() -> Responses:
    """The errors of POST /v1/ocr."""
    own = ("job_cancelled", "option_not_offered", "url_refused", "no_page_read", "still_running")
    return writing(*_BODY_ERRORS, *_FILE_ERRORS, *own, *_ORDER_ERRORS)


def ocr_request(request: type[BaseModel]) -> dict[str, Any]:
    """The body of POST /v1/ocr, which the route reads itself, as it streams."""
    schema = {"$ref": f"#/components/schemas/{request.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def result() -> Responses:
    """What GET …/result answers: a file of one of four kinds."""
    text = {"schema": {"type": "string"}}
    kinds = {"text/plain": text, "text/markdown": text, "application/json": {"schema": {"type": "object"}}}
    kinds |= {"text/csv": text}
    header = {"description": "The job's state when the file was made", "schema": {"type": "string"}}
    own: Responses = {200: {"description": "The file", "content": kinds, "headers": {"X-Job-State": header}}}
    return own | reading("not_found", "job_not_finished", "no_result", "no_fields", "invalid_request")


def page_image() -> Responses:
    """What GET …/image answers."""
    own: Responses = {200: {"description": "The image", "content": {"image/jpeg": {"schema": {"type": "string"}}}}}
    return own | reading("not_found", "invalid_request")


def problems(*codes: str) -> Responses:
    """OpenAPI responses of these codes, one for each status, naming its codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(REFUSALS[code].status, []).append(code)
    return {status: _response(by_status[status]) for status in sorted(by_status)}


def _scoped(scope: Scope, *codes: str) -> Responses:
    responses = authenticated("scope_lacking", *codes)
    responses[403]["description"] += f" This one needs `{scope}`."
    return responses


def _response(codes: list[str]) -> dict[str, Any]:
    meanings = "\n".join(f"- `{code}`: {REFUSALS[code].meaning}" for code in codes)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": meanings, "content": {PROBLEM_MEDIA_TYPE: {"schema": schema}}}
