"""Errors keep code, remedy and retry hint on their way between processes."""

from __future__ import annotations

import inspect
import pickle

import pytest

from portal import errors


def test_error_is_the_same_when_it_crosses_a_process() -> None:
    for error in (
        errors.Busy("full", retry_after_seconds=7),
        errors.DocumentRefused("bad", code="file_empty", remedy="send bytes"),
        errors.EngineError("late", is_permanent=True, code="engine_timeout"),
        errors.StillRunning("wait", job_id="job_1", retry_after_seconds=3),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        for name in ("code", "kind", "message", "remedy", "retry_after_seconds", "job_id", "is_permanent"):
            assert getattr(again, name, None) == getattr(error, name, None)


@pytest.mark.parametrize("kind", [kind for _, kind in inspect.getmembers(errors, inspect.isclass)])
def test_every_error_has_code_and_remedy(kind: type) -> None:
    if issubclass(kind, errors.PortalError):
        assert kind.code
        assert kind.remedy
