"""The OpenAPI document of the API's own routes, with the curl lines of `examples` and the problem schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from portal.api.chat_request import ChatRequest
from portal.api.contract import problems
from portal.api.examples import CURL, with_base
from portal.api.mistral import OcrRequest
from portal.api.schemas import Problem
from portal.settings import Settings

TITLE = "OCR portal"
VERSION = "1"
DESCRIPTION = """Text of scans and PDFs for programs.

Send an API key of the **Keys** page as `Authorization: Bearer ocr_…`. Cookies are not looked at. Errors are
`application/problem+json` (RFC 9457): `code` for programs, `detail` and `remedy` for people, `request_id` for the
operator. Where waiting helps, `Retry-After` says how long. Another tenant's ids are answered
like ids that do not exist.

Two ways to read a document: `POST /v1/ocr` takes one as a data: URL and answers with its text, in the shape of
Mistral's OCR API; `POST /v1/jobs` takes many files of any size allowed, and its job can be watched, fetched later,
cancelled and deleted."""
TAGS = (
    ("OCR", "One document in, its text out; clients of Mistral's OCR API work by changing the base URL and the key."),
    ("Jobs", "Hand in files, watch the pages being read, fetch the text in three formats."),
    ("Templates", "Which fields to read, under a name: those that everybody has, and your tenant's own in versions."),
    ("Chat", "One page image in, as OpenAI's chat API takes it; vLLM's clients work by changing base URL and key."),
    ("Models", "The engines that read pages, and what each can do."),
    ("Usage", "What was used and what is left; what files would cost before they are read."),
    ("Account", "Who a key is, and the keys of its tenant."),
    ("Members", "Who is in the tenant, and invites; changes need an owner's key with the scope `members`."),
    ("Admin", "For the portal's admin, with a key of scope `admin`: tenants, quotas, plans, the audit log."),
    ("Probes", "For load balancers and Kubernetes; no key is needed."),
)
_FASTAPI_DEFAULT = "Successful Response"
_REF = "#/components/schemas/{model}"


def base_url(settings: Settings) -> str:
    """Where the API is reached, without a slash at the end: PORTAL_PUBLIC_URL, else the listening address."""
    return settings.server.address


def openapi_document(routes: Sequence[BaseRoute], base_url: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document of `routes`; its examples name `base_url`."""
    document = get_openapi(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        routes=routes,
        tags=[{"name": name, "description": description} for name, description in TAGS],
        servers=[{"url": base_url}],
    )
    _add_schemas(document)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for answer in operation["responses"].values():
                if answer["description"] == _FASTAPI_DEFAULT:
                    answer["description"] = "Done."
            if "requestBody" in operation:
                operation["responses"].setdefault("413", problems("request_too_large")[413])
            source = CURL.get(f"{method} {path}")
            if source:
                sample = {"lang": "Shell", "label": "curl", "source": with_base(source, base_url)}
                operation["x-codeSamples"] = [sample]
    return document


def _add_schemas(document: dict[str, Any]) -> None:
    """Those of bodies that routes read themselves, and of problems: FastAPI sees neither."""
    models = [(Problem, "serialization"), (OcrRequest, "validation"), (ChatRequest, "validation")]
    _, definitions = models_json_schema(models, ref_template=_REF)  # type: ignore[arg-type]
    document["components"]["schemas"].update(definitions["$defs"])
