"""What the Workspace's form offers once an engine and a task are chosen. Pure; the Workspace puts it on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from portal.domain import EngineCapability, Mode, Task
from portal.ui import engine_choice, order_form
from portal.ui.engine_choice import Choice


@dataclass(frozen=True)
class Offer:
    """The form's choices: what is chosen of each, and what there is to choose. Lists that are empty are not shown."""

    about: Markup
    task: Task
    tasks: Markup
    modes: list[Choice]
    mode: str
    targets: list[Choice]
    target: str | None


def offer(
    capabilities: Sequence[EngineCapability], engine: str, task: Task | None, *, mode: str = "", language: str = ""
) -> Offer:
    """The choices for that engine (or automatic) and task; what was chosen stays where it still can be."""
    offered = engine_choice.considered(engine, capabilities)
    is_possible = task is not None and order_form.engine_for(task, offered) is not None
    chosen = task if task is not None and is_possible else order_form.first_task(offered)
    able = order_form.engine_for(chosen, offered)
    modes = engine_choice.mode_choices(able, chosen)
    targets = engine_choice.target_choices(able, chosen)
    return Offer(
        about=engine_choice.about(offered, is_choice=len(capabilities) > 1),
        task=chosen,
        tasks=order_form.task_choices(offered, chosen),
        modes=modes,
        mode=mode if mode in [value for _, value in modes] else Mode.DOCUMENT.value,
        targets=targets,
        target=engine_choice.first_target(targets, language),
    )
