"""Which engine the Workspace's form means, and what it says of it: modes, languages, purpose, licence notice. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from portal.domain import EngineCapability, Mode, Task
from portal.errors import InvalidRequest
from portal.languages import language_name
from portal.ui import markup, words

AUTOMATIC = ""
_FEW_LANGUAGES = 3
_FIRST_TARGET = "en"

Choice = tuple[str, str]


def engine_choices(capabilities: Sequence[EngineCapability]) -> list[Choice]:
    """(label, value) of each engine, led by the one that leaves the choice to the portal."""
    named = [(f"{each.name} · {each.checkpoint.rpartition('/')[2]}", each.name) for each in capabilities]
    return [(words.AUTOMATIC_ENGINE, AUTOMATIC), *named]


def considered(name: str, capabilities: Sequence[EngineCapability]) -> list[EngineCapability]:
    """The engines that an order may go to: the named one, or all. Raises InvalidRequest for a name that is none."""
    if name == AUTOMATIC:
        return list(capabilities)
    found = [each for each in capabilities if each.name == name]
    if not found:
        raise InvalidRequest("That engine does not exist.", remedy="Reload the page and choose one of the list.")
    return found


def mode_choices(capability: EngineCapability | None, task: Task) -> list[Choice]:
    """(label, value) of the modes to choose between; empty where there is no choice."""
    if capability is None or task is not Task.EXTRACT or len(capability.modes) < 2:
        return []
    return [(words.MODES[mode], mode.value) for mode in capability.modes]


def target_choices(capability: EngineCapability | None, task: Task) -> list[Choice]:
    """(name, code) of the languages that a page can be translated into; empty for other tasks."""
    if capability is None or task is not Task.TRANSLATE:
        return []
    return sorted((language_name(code), code) for code in capability.targets)


def first_target(choices: Sequence[Choice], kept: str) -> str | None:
    """The language chosen at first: the one chosen before, else English, else the first."""
    codes = [code for _, code in choices]
    return next((code for code in (kept, _FIRST_TARGET, *codes) if code in codes), None)


def mode_of(value: str) -> Mode:
    """The mode of that name. Raises InvalidRequest."""
    try:
        return Mode(value or Mode.DOCUMENT)
    except ValueError:
        raise InvalidRequest("There is no such way to read.", remedy="Reload the page and choose again.") from None


def about(capabilities: Sequence[EngineCapability], *, is_choice: bool) -> Markup:
    """What the engines can do, where there are several to choose from, and the notices of their licences."""
    told = [_described(each) for each in capabilities] if is_choice else []
    notices = list(dict.fromkeys(each.notice for each in capabilities if each.notice))
    told += [Markup('<p class="notice-of-licence">{}</p>').format(notice) for notice in notices]
    return Markup('<div class="about-engine">{}</div>').format(markup.joined(told)) if told else Markup("")


def _described(capability: EngineCapability) -> Markup:
    facts = [capability.purpose, f"Reads {_languages(capability.languages)}." if capability.languages else ""]
    return Markup("<p><b>{}</b> {}</p>").format(capability.name, " ".join(filter(None, facts)))


def _languages(codes: Sequence[str]) -> str:
    names = [language_name(code) for code in codes]
    if len(names) <= _FEW_LANGUAGES:
        return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{', '.join(names[:_FEW_LANGUAGES])} and {words.counted(len(names) - _FEW_LANGUAGES, 'more language')}"
