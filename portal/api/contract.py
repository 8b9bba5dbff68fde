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
    *("unknown_model", "task_unavailable", "backlog_full", "intake_busy", "tenant_suspended"),
    *("rate_limited", "quota_exhausted", "too_many_in_flight", "unavailable", "storage_full", "storage_unavailable"),
)

_ENGINE_ERRORS = (
    *("engine_image_refused", "engine_context_too_long", "engine_request_refused", "engine_failed"),
    *("engine_unavailable", "engine_instance_lost", "engine_stream_cut", "engine_silent", "engine_answer_invalid"),
    *("engine_unauthorized", "engine_model_unknown", "page_timeout"),
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
    "prompt_not_allowed": Refusal(403, "The text is none of the model's own prompts; others need the scope prompt."),
    "tenant_suspended": Refusal(403, "The admin suspended your tenant, or stopped new work; the detail says why."),
    "members_not_allowed": Refusal(403, "Only an owner manages members and invites."),
    "keys_not_allowed": Refusal(403, "Only an owner's key with scope ocr or admin manages keys."),
    "admin_only": Refusal(403, "Only a key of the portal's admin, with scope admin, may do this."),
    "not_found": Refusal(404, "It does not exist, or is another tenant's."),
    "api_key_unknown": Refusal(404, "There is no such key in your tenant."),
    "fleet_not_configured": Refusal(404, "The portal was told of no fleet (PORTAL_FLEET_URL)."),
    "instance_unknown": Refusal(404, "The fleet has no such instance."),
    "tenant_unknown": Refusal(404, "There is no such tenant."),
    "plan_unknown": Refusal(404, "There is no such plan."),
    "change_unknown": Refusal(404, "The tenant has no such change of limits."),
    "quota_request_unknown": Refusal(404, "There is no such request for more."),
    "member_unknown": Refusal(404, "There is no such member in your tenant."),
    "invite_unknown": Refusal(404, "Your tenant has no such open invite."),
    "method_not_allowed": Refusal(405, "The route does not take this method; Allow says which it takes."),
    "conflict": Refusal(409, "The job's state does not allow it."),
    "job_not_finished": Refusal(
        409, "The job is queued or running; with partial=true: no page of it is read yet. Wait."
    ),
    "no_fields": Refusal(409, "Fields, or a CSV of them, are asked of a job that is not of the task fields."),
    "no_result": Refusal(409, "The job is over and no page of it was read; its pages say why."),
    "page_not_failed": Refusal(409, "A page that is to be retried has not failed; only failed ones are."),
    "nothing_to_retry": Refusal(409, "No page of the job has failed."),
    "api_key_ended": Refusal(409, "The key was revoked or has expired, so it cannot be rotated."),
    "api_key_replaced": Refusal(409, "The key is being replaced already."),
    "last_owner": Refusal(409, "A tenant keeps at least one owner."),
    "portal_admin": Refusal(409, "The portal's admin cannot be removed."),
    "too_many_invites": Refusal(409, "The tenant has as many open invites as it may; revoke some."),
    "job_cancelled": Refusal(409, "The job was cancelled while the request waited."),
    "limits_changed": Refusal(409, "Somebody changed the tenant's limits since they were looked at."),
    "undo_too_late": Refusal(409, "A change of limits is undone within ten minutes only."),
    "change_undone": Refusal(409, "The change of limits was undone already."),
    "plan_name_taken": Refusal(409, "A plan with this name exists."),
    "quota_request_decided": Refusal(409, "The request for more was granted or declined already."),
    "admin_tenant": Refusal(409, "The admin's own tenant can be neither suspended nor deleted."),
    "fleet_conflict": Refusal(409, "The fleet cannot do that now; the detail says why."),
    "registration_fixed": Refusal(409, "PORTAL_REGISTRATION fixes who may sign up."),
    "tenant_name_taken": Refusal(409, "A tenant with this name exists."),
    "email_taken": Refusal(409, "The e-mail has an account."),
    "file_too_large": Refusal(413, "A file, or the whole body, is larger than /v1/me allows."),
    "request_too_large": Refusal(413, "The body is larger than the 1 MiB that a route without files takes."),
    "file_type_unknown": Refusal(415, "The file is of no kind that can be read."),
    "invalid_request": Refusal(422, "A parameter is missing, malformed or out of range; the detail names it."),
    "no_files": Refusal(422, "The form has no file."),
    "too_many_files": Refusal(422, "The form has more files than a job takes."),
    "file_empty": Refusal(422, "The file has no bytes."),
    "file_corrupt": Refusal(422, "The file is damaged, or the data: URL is not base64."),
    "file_encrypted": Refusal(422, "The PDF needs a password."),
    "file_unreadable": Refusal(422, "The file cannot be opened within the limits."),
    "too_many_pages": Refusal(
        422, "The document has too many pages, or more than your tenant may ever have in flight."
    ),
    "too_many_pixels": Refusal(422, "A page is too large in pixels."),
    "page_out_of_range": Refusal(422, "The page selection names a page that a document does not have."),
    "unknown_model": Refusal(422, "No engine and no checkpoint has this name; /v1/models lists them."),
    "task_unavailable": Refusal(422, "The engine cannot do this task; /v1/models says why."),
    "option_not_offered": Refusal(422, "An option of Mistral's or OpenAI's API that this portal cannot honour."),
    "prompt_not_taken": Refusal(422, "The model takes an image alone, and text was sent."),
    "engine_image_refused": Refusal(422, "The engine cannot read this image."),
    "engine_context_too_long": Refusal(422, "Image and text are more than the engine takes in at once."),
    "engine_request_refused": Refusal(422, "The engine refuses a parameter of the request."),
    "engine_failed": Refusal(422, "The engine failed on this image."),
    "url_refused": Refusal(422, "A remote URL: the portal fetches none."),
    "no_page_read": Refusal(422, "Every page failed; the remedy is the first page's."),
    "api_key_name": Refusal(422, "The key's name is empty or has characters that cannot be shown."),
    "invite_days": Refusal(422, "An invite lasts a number of days in the allowed range."),
    "invite_note": Refusal(422, "The note is too long or has characters that cannot be shown."),
    "scope_missing": Refusal(422, "A key needs at least one scope."),
    "expiry_invalid": Refusal(422, "The expiry has no time zone or is past."),
    "limit_invalid": Refusal(422, "The limit cannot have this value; the remedy says which it can."),
    "limit_until_invalid": Refusal(422, "The end of a change is past, has no time zone, or ends no limit."),
    "time_zone_unknown": Refusal(422, "There is no such time zone."),
    "reason_too_long": Refusal(422, "The reason is too long."),
    "reason_invalid": Refusal(422, "A reason is missing, too long, or no text."),
    "answer_invalid": Refusal(422, "An answer is missing or too long."),
    "plan_name_invalid": Refusal(422, "A plan cannot have this name."),
    "name_not_typed": Refusal(422, "The typed name is not the tenant's."),
    "tenant_name_invalid": Refusal(422, "A tenant cannot have this name."),
    "tenant_name_reserved": Refusal(422, "The tenant name is reserved."),
    "email_invalid": Refusal(422, "This is no e-mail address."),
    "rate_limited": Refusal(429, "Your tenant made as many requests this minute as it may; see Retry-After."),
    "quota_exhausted": Refusal(
        429, "Your tenant's pages of the day or month do not suffice; `limit`, `allowed` and `used` say which."
    ),
    "too_many_in_flight": Refusal(429, "Your tenant has as many pages waiting as it may; see Retry-After."),
    "search_busy": Refusal(503, "Your tenant has as many searches running as it may; see Retry-After."),
    "search_too_slow": Refusal(503, "The search took too long and was ended; the remedy says how to ask for less."),
    "query_too_slow": Refusal(503, "The database took too long to answer."),
    "internal": Refusal(500, "A fault of the portal; tell the operator the request_id."),
    "backlog_full": Refusal(
        503, "With these the portal would have more waiting work than it may hold; see Retry-After."
    ),
    "intake_busy": Refusal(503, "Too many files, of yours or of all, are being opened right now; see Retry-After."),
    "unavailable": Refusal(503, "A part that is needed does not answer; see Retry-After. A job_id: the job goes on."),
    "fleet_unavailable": Refusal(503, "The fleet does not answer, or refuses the portal's token."),
    "storage_full": Refusal(503, "The portal's disk is full."),
    "storage_unavailable": Refusal(503, "The portal's storage does not work."),
    "engine_unavailable": Refusal(503, "The engine is away; jobs are taken and wait for it. See Retry-After."),
    "engine_instance_lost": Refusal(503, "One of the engine's instances has just ended; see Retry-After."),
    "engine_stream_cut": Refusal(503, "The engine's answer was cut off."),
    "engine_silent": Refusal(503, "The engine said nothing for too long."),
    "engine_answer_invalid": Refusal(503, "What answers at the engine's address is no vLLM."),
    "engine_unauthorized": Refusal(503, "The engine refuses the portal's key; tell the operator."),
    "engine_model_unknown": Refusal(503, "The engine does not serve its model; tell the operator."),
    "page_timeout": Refusal(503, "The answer was not complete in the time that one may take."),
    "still_running": Refusal(504, "The wait elapsed; the job goes on under its job_id."),
}

RATE_LIMIT_HEADERS: dict[str, Any] = {
    name: {"description": meaning, "schema": {"type": kind}}
    for name, kind, meaning in (
        ("X-RateLimit-Resource", "string", "The limit that is nearest to its end, by its name in /v1/me"),
        ("X-RateLimit-Limit", "integer", "Its value"),
        ("X-RateLimit-Remaining", "integer", "What is left of it, this request counted"),
        ("X-RateLimit-Reset", "integer", "Seconds until its count starts anew; missing where nothing starts anew"),
    )
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
    any_key = ("unauthenticated", "api_key_invalid", "api_key_revoked", "api_key_expired", "tenant_suspended")
    return problems(*any_key, *codes)


def reading(*codes: str) -> Responses:
    """The errors of a route that needs the scope `read`."""
    return _scoped(Scope.READ, *codes)


def writing(*codes: str) -> Responses:
    """The errors of a route that needs the scope `ocr`."""
    return _scoped(Scope.OCR, *codes)


def administering(*codes: str) -> Responses:
    """The errors of a route of the portal's admin."""
    return _scoped(Scope.ADMIN, "admin_only", *dict.fromkeys(("invalid_request", *codes)))


def managing_members(*codes: str) -> Responses:
    """The errors of a route that needs an owner's key with the scope `members`."""
    return _scoped(Scope.MEMBERS, "members_not_allowed", *codes)


def job_submission() -> Responses:
    """What POST /v1/jobs answers beside 202."""
    finished: Responses = {
        200: {"description": "Finished within `wait`; the body is the same", "headers": RATE_LIMIT_HEADERS},
        202: {"headers": RATE_LIMIT_HEADERS},
    }
    return finished | writing("no_files", "too_many_files", "not_found", *_BODY_ERRORS, *_FILE_ERRORS, *_ORDER_ERRORS)


def job_list() -> Responses:
    """The errors of GET /v1/jobs."""
    return reading("not_found", "invalid_request", "search_busy", "search_too_slow")


def job_retry() -> Responses:
    """What POST …/retry answers beside 202."""
    finished: Responses = {200: {"description": "Finished within `wait`; the body is the same"}}
    own = ("not_found", "page_not_failed", "nothing_to_retry", "page_out_of_range")
    rest = ("malformed_body", "invalid_request", "unknown_model", "task_unavailable", "backlog_full", "unavailable")
    limits = ("tenant_suspended", "rate_limited", "quota_exhausted", "too_many_in_flight", "too_many_pages")
    return finished | writing(*own, *rest, *limits)


def price() -> Responses:
    """The errors of POST /v1/price: what no choice of files or pages would mend."""
    order = ("unknown_model", "task_unavailable", "intake_busy", "unavailable", "storage_full", "storage_unavailable")
    return writing("no_files", "too_many_files", *_BODY_ERRORS, *order, "rate_limited")


def usage_csv() -> Responses:
    """What GET /v1/usage.csv answers."""
    own: Responses = {200: {"description": "The file", "content": {"text/csv": {"schema": {"type": "string"}}}}}
    return own | reading("invalid_request")


def ocr() -> Responses:
    """The errors of POST /v1/ocr."""
    own = ("job_cancelled", "option_not_offered", "url_refused", "no_page_read", "still_running")
    read: Responses = {200: {"headers": RATE_LIMIT_HEADERS}}
    return read | writing(*_BODY_ERRORS, *_FILE_ERRORS, *own, *_ORDER_ERRORS, "engine_unavailable")


def chat() -> Responses:
    """What POST /v1/chat/completions answers."""
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    own: Responses = {200: {"description": "The answer, whole or as a stream", "content": stream}}
    own[200]["headers"] = RATE_LIMIT_HEADERS
    asked = ("option_not_offered", "prompt_not_taken", "prompt_not_allowed", "url_refused", "file_empty")
    files = ("file_corrupt", "too_many_pixels", "unknown_model", "task_unavailable")
    limits = ("tenant_suspended", "rate_limited", "quota_exhausted", "too_many_in_flight", "too_many_pages")
    away = ("backlog_full", "unavailable", "storage_full", "storage_unavailable")
    return own | _scoped(Scope.CHAT, *_BODY_ERRORS, *asked, *files, *_ENGINE_ERRORS, *limits, *away)


def json_request(request: type[BaseModel]) -> dict[str, Any]:
    """A JSON body that the route reads itself, as it streams."""
    schema = {"$ref": f"#/components/schemas/{request.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def result() -> Responses:
    """What GET …/result answers: a file of one of four kinds."""
    text = {"schema": {"type": "string"}}
    kinds = {"text/plain": text, "text/markdown": text, "application/json": {"schema": {"type": "object"}}}
    kinds |= {"text/csv": text}
    header = {"description": "The job's state when the file was made", "schema": {"type": "string"}}
    own: Responses = {200: {"description": "The file", "content": kinds, "headers": {"X-Job-State": header}}}
    return own | reading("not_found", "job_not_finished", "no_result", "no_fields", "invalid_request", "query_too_slow")


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
