"""/v1/templates: what fields documents of a kind have; those that everybody has, and the tenant's own in versions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, status
from pydantic import BaseModel, ConfigDict, Field

from portal.api import contract
from portal.api.access import Reader, Submitter
from portal.api.problems import ProblemRoute
from portal.engine.fields.schemas import specs_from_schema
from portal.engine.fields.specs import specs_from_json, specs_to_json
from portal.http.given import PortalServices
from portal.jobs import templates
from portal.jobs.templates import Template

routes = APIRouter(prefix="/v1/templates", tags=["Templates"], route_class=ProblemRoute)

TemplateName = Annotated[
    str, Path(max_length=60, description="The template's name", examples=["invoice"], pattern=r"^[^\x00-\x1f]+$")
]


class TemplateOrder(BaseModel):
    """A template to save: its rows, or a JSON Schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=60, description="A new name, or the name of one of your own: then its next version")
    fields: list[dict[str, Any] | str] | dict[str, Any] = Field(
        description="Rows with name, type (text, date, money, number, id, iban, email, phone, rows), required, many, "
        "description, allowed, pattern (RE2), minimum, maximum, not_before, sum_of, children; or a JSON Schema. "
        "At most 200 fields and columns in all",
        examples=[[{"name": "total", "type": "money", "required": True}]],
    )


class TemplateBody(BaseModel):
    """A template at its newest version."""

    object: Literal["template"] = "template"
    name: str
    title: str
    version: int
    is_built_in: bool
    created_at: datetime | None
    fields: list[dict[str, Any]]


class TemplateList(BaseModel):
    """All templates: those that everybody has first."""

    object: Literal["list"] = "list"
    data: list[TemplateBody]


@routes.get("", summary="List templates", responses=contract.reading())
def list_templates(services: PortalServices, principal: Reader) -> TemplateList:
    """The templates that everybody has and your tenant's own, each at its newest version."""
    return TemplateList(data=[_body(one) for one in templates.list_templates(services.jobs, principal.tenant_id)])


@routes.get("/{name}", summary="Look at a template", responses=contract.reading("not_found", "invalid_request"))
def show_template(services: PortalServices, principal: Reader, name: TemplateName) -> TemplateBody:
    """One template at its newest version."""
    return _body(templates.get_template(services.jobs, principal.tenant_id, name))


@routes.post(
    "",
    status_code=status.HTTP_201_CREATED,
    summary="Save a template",
    responses=contract.writing("malformed_body", "invalid_request", "conflict"),
)
def save_template(services: PortalServices, principal: Submitter, order: TemplateOrder) -> TemplateBody:
    """Saves a template of your tenant, or the next version of one.

    Versions never change, and each run records the one that it used. The same fields again make no new version.
    """
    given = order.fields
    specs = specs_from_schema(given) if isinstance(given, dict) else specs_from_json(given)
    return _body(templates.save_template(services.jobs, principal, order.name, specs))


@routes.delete(
    "/{name}",
    status_code=status.HTTP_204_NO_CONTENT,
    summary="Delete a template",
    responses=contract.writing("not_found", "conflict", "invalid_request"),
)
def delete_template(services: PortalServices, principal: Submitter, name: TemplateName) -> None:
    """Takes one of your tenant's templates away, all its versions. Runs that used it keep their fields."""
    templates.delete_template(services.jobs, principal, name)


def _body(template: Template) -> TemplateBody:
    return TemplateBody(
        name=template.name,
        title=template.title,
        version=template.version,
        is_built_in=template.is_built_in,
        created_at=template.created_at,
        fields=specs_to_json(template.specs),
    )
