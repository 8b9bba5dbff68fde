"""The form of the task Fields: a template, or rows of one's own, with the JSON behind a tab (static/fields_form.js).

The component's value is JSON text: {"template": name} as it is, {"template": name or null, "rows": […]} when edited,
{"schema": …} for a JSON Schema, {"json": text} for what somebody is still writing. What is saved as a template is such
a value, too. Names of templates and fields are drawn with textContent only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from portal.domain import FieldSpec, FieldType, Principal, TemplateRef
from portal.engine.fields.schemas import specs_from_schema
from portal.engine.fields.specs import specs_from_json, specs_from_names, specs_to_json
from portal.engine.fields.templates import BUILT_IN, TITLES
from portal.errors import InvalidRequest, NotFound
from portal.jobs import templates
from portal.jobs.context import JobContext
from portal.jobs.templates import Template


@dataclass(frozen=True)
class Asked:
    """The fields of a run, and the template that they are."""

    specs: tuple[FieldSpec, ...]
    template: TemplateRef | None = None


@dataclass(frozen=True)
class Done:
    """What came of saving or deleting, in words, and the template that is there now; `turn` is the form's own count."""

    told: str
    name: str = ""
    turn: int = 0


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
        described=described(built_in, is_whole=False),
    )


def described(offered: Sequence[Template], done: Done | None = None, *, is_whole: bool = True) -> str:
    """What the form offers: templates with their rows, whether they are all, the types, and what came of a saving."""
    return json.dumps(
        {
            "templates": [
                {"name": one.name, "title": one.title, "own": not one.is_built_in, "rows": specs_to_json(one.specs)}
                for one in offered
            ],
            "whole": is_whole,
            "types": [type.value for type in FieldType],
            "told": done.told if done else "",
            "saved": {"name": done.name, "turn": done.turn} if done and done.name else None,
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
    return _asked(_parsed(text), find_template)


def act(context: JobContext, principal: Principal, event: Mapping[str, Any]) -> Done:
    """Saves or deletes a template as the form asks; gives what came of it. Raises PortalError."""
    match event.get("action"):
        case "save":
            given = _parsed(str(event.get("target")))
            if not isinstance(given, dict) or not isinstance(given.get("fields"), dict):
                raise InvalidRequest("There is nothing to save.", remedy="Reload the page.")
            wanted = _asked(given["fields"], partial(templates.get_template, context, principal.tenant_id))
            saved = templates.save_template(context, principal, str(given.get("name", "")), wanted.specs)
            turn = given.get("turn")
            told = f"Saved as {saved.name}, version {saved.version}."
            return Done(told, saved.name, turn if isinstance(turn, int) else 0)
        case "delete":
            name = str(event.get("target"))
            templates.delete_template(context, principal, name)
            return Done(f"Deleted {name}.")
    raise InvalidRequest("There is no such action.", remedy="Reload the page.")


def _asked(given: dict[str, Any] | list[Any], find_template: FindTemplate) -> Asked:
    if isinstance(given, list):
        return Asked(specs_from_json(given))
    if isinstance(given.get("json"), str):
        return _written(given["json"])
    if isinstance(given.get("schema"), dict):
        return Asked(specs_from_schema(given["schema"]))
    name = given.get("template")
    if "rows" not in given and isinstance(name, str) and name:
        template = find_template(name)
        return Asked(template.specs, template.ref)
    specs = specs_from_json(given.get("rows") or [])
    return Asked(specs, _ref(name, specs, find_template))


def _written(text: str) -> Asked:
    """Of the JSON tab, as it is written: rows or a JSON Schema."""
    given = _parsed(text)
    return Asked(specs_from_json(given) if isinstance(given, list) else specs_from_schema(given))


def _ref(name: object, specs: tuple[FieldSpec, ...], find_template: FindTemplate) -> TemplateRef | None:
    """The template of that name where the rows are as it has them."""
    if not isinstance(name, str) or not name:
        return None
    try:
        template = find_template(name)
    except NotFound:  # deleted meanwhile: the rows are there all the same
        return None
    return template.ref if template.specs == specs else None


def _parsed(text: str) -> dict[str, Any] | list[Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest("The fields are not valid JSON.", remedy="Correct them in the tab JSON.") from None
    if not isinstance(given, dict | list):
        raise InvalidRequest("The fields are not rows.", remedy="Correct them in the tab JSON.")
    return given
