"""What the stories of this package are given: the parts below them, built once by the composition root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.documents.storage import Storage
from portal.domain import EngineCapability, Task, TaskPrompt
from portal.engine.base import Engine
from portal.errors import InvalidRequest, TaskUnavailable
from portal.jobs.gate import DIRECT, Gates
from portal.jobs.heavy_reads import HeavyReads
from portal.jobs.kept_readings import KeptReadings
from portal.jobs.notices import Notices
from portal.languages import language_name
from portal.settings import Settings

DEFAULT = "default"


_STARTING = "it is still starting."


class Engines:
    """The configured engines by name; the first is the default."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = {engine.capability.name: engine for engine in engines}
        self._troubles: dict[str, str | None] = dict.fromkeys(self._engines, _STARTING)

    @property
    def all(self) -> tuple[Engine, ...]:
        """In the order of the configuration."""
        return tuple(self._engines.values())

    @property
    def capabilities(self) -> tuple[EngineCapability, ...]:
        """What each engine can do, the default first."""
        return tuple(engine.capability for engine in self.all)

    def get(self, name: str) -> Engine:
        """The engine of that name, of that checkpoint, or the default.

        Raises TaskUnavailable when no engine is configured, InvalidRequest when none is called so.
        """
        if not self._engines:
            raise TaskUnavailable(
                "No engine is configured.",
                remedy="Ask the operator to switch the embedded engine on (PORTAL_EMBEDDED=on) or to name a vLLM "
                "(PORTAL_VLLM_URL).",
            )
        if name == DEFAULT:
            return self.all[0]
        for engine in self.all:
            if name in (engine.capability.name, engine.capability.checkpoint):
                return engine
        raise InvalidRequest(
            f"There is no engine or model '{name}'.",
            code="unknown_model",
            remedy=f"Use '{DEFAULT}' or one of: {', '.join(self._engines)}.",
        )

    def mark(self, engine: Engine, trouble: str | None) -> None:
        """Notes that the engine is ready (None), or why not, in words."""
        self._troubles[engine.capability.name] = trouble

    def is_ready(self, engine: Engine) -> bool:
        """True once the engine has read its probe image."""
        return self._troubles[engine.capability.name] is None

    def is_starting(self, engine: Engine) -> bool:
        """True until it is known whether the engine came up."""
        return self._troubles[engine.capability.name] == _STARTING

    @property
    def troubles(self) -> dict[str, str]:
        """Engines that are not ready → why, in words. Empty when all are."""
        return {name: trouble for name, trouble in self._troubles.items() if trouble is not None}


def require_task(engine: Engine, prompt: TaskPrompt) -> None:
    """Raises TaskUnavailable with the engine's own reason when it cannot do the task, in that mode or language."""
    capability = engine.capability
    task = prompt.task
    if task not in capability.tasks:
        reason = capability.unavailable.get(task, "this engine does not offer it.")
        raise TaskUnavailable(f"'{task}' is not available on {capability.name}: {reason}")
    if prompt.mode not in capability.modes:
        raise TaskUnavailable(
            f"The mode '{prompt.mode}' is not available on {capability.name}.",
            remedy=f"Use {_one_of(capability.modes)}, or an engine that /v1/models lists with this mode.",
        )
    if task is Task.TRANSLATE:
        _require_target(capability, prompt.language)


def _require_target(capability: EngineCapability, language: str | None) -> None:
    if language is None:
        raise InvalidRequest(
            "The task 'translate' needs the language to translate into.",
            remedy=f"Send it as options.language: {_one_of(capability.targets)}.",
        )
    if language not in capability.targets:
        raise TaskUnavailable(
            f"{capability.name} does not translate into {language_name(language)}.",
            remedy=f"Choose {_one_of(capability.targets)}, or an engine that /v1/models lists with this language.",
        )


def _one_of(choices: Sequence[str]) -> str:
    return f"one of: {', '.join(choices)}" if len(choices) > 1 else "".join(choices)


@dataclass(frozen=True)
class JobContext:
    """The parts below jobs. `notices` wakes the dispatcher and whoever waits for a job."""

    settings: Settings
    database: Database
    storage: Storage
    sandbox: Sandbox
    engines: Engines
    notices: Notices
    heavy_reads: HeavyReads = field(default_factory=HeavyReads)
    kept_readings: KeptReadings = field(default_factory=KeptReadings)

    @cached_property
    def gates(self) -> Gates:
        """The gates before the engines; used on the event loop only."""
        return Gates(partial(self.notices.announce, DIRECT))
