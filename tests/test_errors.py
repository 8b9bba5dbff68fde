"""Errors keep code, remedy and retry hint on their way between processes."""

from __future__ import annotations

import inspect
import pickle

import pytest

from portal import errors
from portal.engine.second_servers import of_text_model


def test_error_is_the_same_when_it_crosses_a_process() -> None:
    for error in (
        errors.Busy("full", retry_after_seconds=7),
        errors.DocumentRefused("bad", code="file_empty", remedy="send bytes"),
        errors.EngineError("late", is_permanent=True, code="engine_timeout"),
        errors.PageOutOfRange("a.png", page=6, page_count=1, first=0),
        of_text_model(errors.EngineError("long", is_permanent=True, code="engine_context_too_long")),
        errors.StillRunning("wait", job_id="job_1", retry_after_seconds=3),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        for name in ("code", "kind", "message", "remedy", "retry_after_seconds", "job_id", "is_permanent", "cause"):
            assert getattr(again, name, None) == getattr(error, name, None)


@pytest.mark.parametrize("kind", [kind for _, kind in inspect.getmembers(errors, inspect.isclass)])
def test_every_error_has_code_and_remedy(kind: type) -> None:
    if issubclass(kind, errors.PortalError):
        assert kind.code
        assert kind.remedy


@pytest.mark.parametrize(("first", "lowest", "highest", "page"), [(1, 1, 3, 6), (0, 0, 2, 5)])
def test_page_range_is_said_as_the_caller_counts(first: int, lowest: int, highest: int, page: int) -> None:
    refusal = errors.PageOutOfRange("a.pdf", page=6, page_count=3).counted_from(first)
    assert refusal.message == f"a.pdf has pages {lowest} to {highest}; page {page} cannot be read."
    assert refusal.remedy.startswith(f"Choose pages {lowest} to {highest},")
