"""The form of the task Fields: a template, or rows of one's own, with the JSON behind a tab (static/fields_form.js).

The component's value is JSON text: {"template": name} as it is, {"template": name or null, "rows": […]} when edited,
{"schema": …} for a JSON Schema. Names of templates and fields are drawn with textContent only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from portal.domain import FieldSpec, FieldType, Principal, TemplateRef
from portal.engine.fields.schemas import specs_from_schema
from portal.engine.fields.specs import specs_from_json, specs_from_names, specs_to_json
from portal.engine.fields.templates import BUILT_IN, TITLES
from portal.errors import InvalidRequest
from portal.jobs import templates
from portal.jobs.context import JobContext
from portal.jobs.templates import Template


@dataclass(frozen=True)
class Asked:
    """The fields of a run, and the template that they are."""

    specs: tuple[FieldSpec, ...]
    template: TemplateRef | None = None


FindTemplate = Callable[[str], Template]

_FIRST = json.dumps({"template": "receipt"})
_MOUNT_JS = """
import(portal.files + 'fields_form.js').then((form) =>
  form.mount(element, props, watch, (event) => trigger('submit', event)));
"""


def fields_form(*, visible: bool) -> gr.HTML:
    """The component with the templates that everybody has, until `with_templates` adds the tenant's."""
    built_in = [Template(name, TITLES[name], 1, specs) for name, specs in BUILT_IN.items()]
    return gr.HTML(
        _FIRST,
        html_template="",
        js_on_load=_MOUNT_JS,
        apply_default_css=False,
        elem_id="fields",
        visible=visible,
        described=described(built_in),
    )


def described(offered: Sequence[Template], *, told: str = "") -> str:
    """What the form offers: templates with their rows, the types, and what came of the last saving."""
    return json.dumps(
        {
            "templates": [
                {"name": one.name, "title": one.title, "own": not one.is_built_in, "rows": specs_to_json(one.specs)}
                for one in offered
            ],
            "types": [type.value for type in FieldType],
            "told": told,
        },
        ensure_ascii=False,
    )


def asked(value: str, find_template: FindTemplate) -> Asked:
    """The fields that the form's value asks for, and their template where they are as it has them.

    Plain names with commas are taken too. Raises InvalidRequest, NotFound for a template that was deleted meanwhile.
    """
    text = value.strip()
    if not text.startswith(("{", "[")):
        return Asked(specs_from_names([name for name in text.replace("\n", ",").split(",") if name.strip()]))
    given = _parsed(text)
    if isinstance(given, list):
        return Asked(specs_from_json(given))
    if isinstance(given.get("schema"), dict):
        return Asked(specs_from_schema(given["schema"]))
    name = given.get("template")
    template = find_template(name) if isinstance(name, str) and name else None
    if "rows" not in given and template is not None:
        return Asked(template.specs, template.ref)
    specs = specs_from_json(given.get("rows") or [])
    ref: TemplateRef | None = template.ref if template is not None and template.specs == specs else None
    return Asked(specs, ref)


def rows_of(target: Any) -> tuple[str, list[Any]]:
    """Name and rows that the form wants saved. Raises InvalidRequest."""
    given = _parsed(str(target))
    if not isinstance(given, dict) or not isinstance(given.get("rows"), list):
        raise InvalidRequest("There is nothing to save.", remedy="Reload the page.")
    return str(given.get("name", "")), given["rows"]


def act(context: JobContext, principal: Principal, event: Mapping[str, Any]) -> str:
    """Saves or deletes a template as the form asks; gives what came of it, in words. Raises PortalError."""
    match event.get("action"):
        case "save":
            name, rows = rows_of(event.get("target"))
            saved = templates.save_template(context, principal, name, specs_from_json(rows))
            return f"Saved as {saved.name}, version {saved.version}."
        case "delete":
            name = str(event.get("target"))
            templates.delete_template(context, principal, name)
            return f"Deleted {name}."
    raise InvalidRequest("There is no such action.", remedy="Reload the page.")


def _parsed(text: str) -> Any:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest("The fields are not valid JSON.", remedy="Correct them in the tab JSON.") from None
    if not isinstance(given, dict | list):
        raise InvalidRequest("The fields are not rows.", remedy="Correct them in the tab JSON.")
    return given
