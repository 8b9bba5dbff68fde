from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr
import pytest
from structlog.testing import capture_logs

from portal.errors import DocumentRefused, NotFound
from portal.ui import messages
from tests.ui.conftest import ATTACK


@pytest.fixture
def warnings_shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What gr.Warning was asked to show; outside an event it has nobody to show it to."""
    shown: list[str] = []
    monkeypatch.setattr(gr, "Warning", lambda text, **_: shown.append(text))
    return shown


def failing(error: Exception) -> Callable[[], Any]:
    def handler() -> Any:
        raise error

    return handler


def test_message_and_remedy_are_escaped_when_an_action_is_refused(warnings_shown: list[str]) -> None:
    messages.told(failing(NotFound(f"There is no {ATTACK}.", remedy="Look again.")))()
    assert warnings_shown == ["There is no &lt;img src=x onerror=alert(1)&gt;. Look again."]


def test_only_a_number_is_shown_when_the_error_is_unknown(warnings_shown: list[str]) -> None:
    with capture_logs() as logged:
        messages.told(failing(RuntimeError("password=hunter2 at /srv/portal")))()
    assert "hunter2" not in warnings_shown[0]
    assert logged[0]["number"] in warnings_shown[0]
    assert logged[0]["event"] == "ui.unexpected"


def test_nothing_is_shown_when_a_tick_fails(warnings_shown: list[str]) -> None:
    with capture_logs() as logged:
        messages.polled(failing(RuntimeError("boom")))()
        messages.polled(failing(NotFound("gone")))()
    assert not warnings_shown
    assert len(logged) == 1


def test_the_notice_is_escaped_when_a_file_is_refused() -> None:
    notice = messages.inline(DocumentRefused(f"{ATTACK}.pdf is empty.", remedy="Scan it again."))
    assert "This file cannot be read" in notice
    assert "&lt;img src=x onerror=alert(1)&gt;.pdf is empty. Scan it again." in notice
