"""What the Workspace's form offers and what it orders: tasks by engine, fields, files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from portal.documents.intake import Upload
from portal.domain import EngineCapability, FieldSpec, Mode, Task, TaskPrompt
from portal.errors import InvalidRequest, NotFound, TaskUnavailable
from portal.jobs.submission import Order
from portal.languages import language_code
from portal.ui import engine_choice, markup, words
from portal.ui.field_form import Asked, FindTemplate, asked


def engine_for(task: Task, capabilities: Sequence[EngineCapability]) -> EngineCapability | None:
    """The first engine that can do the task, the default engine before others."""
    return next((capability for capability in capabilities if task in capability.tasks), None)


def reason_against(task: Task, capabilities: Sequence[EngineCapability]) -> str:
    """Why no engine can do the task, in the default engine's own words."""
    reasons = (capability.unavailable[task] for capability in capabilities if task in capability.unavailable)
    return next(reasons, "No engine that can do this is configured.")


def first_task(capabilities: Sequence[EngineCapability]) -> Task:
    """The task chosen at first: the first of the list that works."""
    return next((task for task in words.TASKS if engine_for(task, capabilities)), Task.EXTRACT)


def task_choices(capabilities: Sequence[EngineCapability], wanted: Task | None = None) -> Markup:
    """The tasks as radio buttons; those that no engine can do are shown with the reason and cannot be chosen.

    Chosen is the wanted one, where some engine can do it.
    """
    is_possible = wanted is not None and engine_for(wanted, capabilities) is not None
    chosen = wanted if is_possible else first_task(capabilities)
    choices = markup.joined(_choice(task, capabilities, is_chosen=task is chosen) for task in words.TASKS)
    return Markup('<fieldset class="tasks"><legend>Task</legend>{}</fieldset>').format(choices)


def order(  # noqa: PLR0913  one for each field of the form
    task: str,
    wanted: str,
    language: str,
    *,
    page_numbers: tuple[int, ...] | None,
    is_fresh: bool = False,
    capabilities: Sequence[EngineCapability],
    find_template: FindTemplate,
    engine_name: str = engine_choice.AUTOMATIC,
    mode: str = "",
) -> Order:
    """The order that the form describes. Raises InvalidRequest or TaskUnavailable saying what to change."""
    chosen = task_named(task)
    offered = engine_choice.considered(engine_name, capabilities)
    engine = engine_for(chosen, offered)
    if engine is None:
        raise TaskUnavailable(f"{words.TASKS[chosen][0]}: {reason_against(chosen, offered)}")
    fields = _fields(wanted, find_template) if chosen is Task.FIELDS else Asked(())
    prompt = TaskPrompt(
        task=chosen,
        fields=fields.specs,
        language=_language(language) if chosen is Task.TRANSLATE else None,
        mode=engine_choice.mode_of(mode) if engine_choice.mode_choices(engine, chosen) else Mode.DOCUMENT,
        template=fields.template,
    )
    return Order(prompt=prompt, engine=engine.name, page_numbers=page_numbers, is_fresh=is_fresh)


def priced_order(task: str, wanted: str, language: str, **rest: Any) -> Order:
    """As `order`, also while fields or a language are still to be chosen: nothing was read in that way before."""
    try:
        return order(task, wanted, language, **rest)
    except (InvalidRequest, NotFound):
        found = order(task, "-", "en", **rest)
        return replace(found, prompt=TaskPrompt(found.prompt.task, fields=(FieldSpec("-"),)))


def uploads(paths: Sequence[str], names: str) -> list[Upload]:
    """Pairs the received files with the names people gave them (a JSON list). The names are only ever shown.

    Raises InvalidRequest when there is no file, or one was swept because the form stood open for hours.
    """
    if not paths:
        raise InvalidRequest("No file was chosen.", remedy="Drop at least one scan, or try the sample.")
    given = _names(names, count=len(paths))
    found = [
        Upload(file_name=name or Path(path).name, path=Path(path)) for path, name in zip(paths, given, strict=True)
    ]
    for upload in found:
        if not upload.path.is_file():
            raise InvalidRequest(f"The upload of {upload.file_name} has expired.", remedy="Drop the file again.")
    return found


def _choice(task: Task, capabilities: Sequence[EngineCapability], *, is_chosen: bool) -> Markup:
    label, purpose = words.TASKS[task]
    is_possible = engine_for(task, capabilities) is not None
    state = "disabled" if not is_possible else "checked" if is_chosen else ""
    note = purpose if is_possible else reason_against(task, capabilities)
    return Markup(
        '<label class="task"><input type="radio" name="task" value="{}" {}>'
        "<span><b>{}</b><small>{}</small></span></label>"
    ).format(task, state, label, note)


def task_named(value: str) -> Task:
    """The task of that name. Raises InvalidRequest."""
    try:
        return Task(value)
    except ValueError:
        raise InvalidRequest(
            "That task does not exist.", remedy="Reload the page and choose one of the list."
        ) from None


def _fields(wanted: str, find_template: FindTemplate) -> Asked:
    found = asked(wanted, find_template)
    if not found.specs:
        raise InvalidRequest(
            "Which fields to read is missing.", remedy="Choose a template, or add a row for each field."
        )
    return found


def _language(text: str) -> str:
    if not text.strip():
        raise InvalidRequest("The language to translate into is missing.", remedy="Choose one, like: English.")
    code = language_code(text)
    if code is None:
        raise InvalidRequest("That is no language that the portal knows.", remedy="Choose one of the list.")
    return code


def _names(text: str, *, count: int) -> list[str]:
    try:
        names = json.loads(text or "[]")
    except json.JSONDecodeError:
        names = []
    if not isinstance(names, list) or len(names) != count:
        return [""] * count
    return [str(name) for name in names]
