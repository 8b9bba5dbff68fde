"""Choosing an engine, a mode and a language in a real Chromium, over a whole portal with two scripted vLLMs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.conftest import RunningPortal
from tests.running_portal import start_portal, stop_portal
from tests.scripted_vllm import ScriptedVllm, running_vllm, says
from tests.ui.conftest import ATTACK, CHOOSE_FILES, Visitor, page_image, register

_ORIGINAL = f"# Rechnung 4711\n\n{ATTACK}\n\n<table><tr><td>Papier</td><td>9,00</td></tr></table>\n\nGesamt $x^2$"
_TRANSLATED = f"# Invoice 4711\n\n{ATTACK}\n\n| Paper | 9.00 |\n|---|---|\n\nTotal $x^2$"
_READ_MS = 30_000


@dataclass(frozen=True)
class Stack:
    """The portal and the servers behind it; lighton is the default."""

    portal: RunningPortal
    lighton: ScriptedVllm
    hunyuan: ScriptedVllm


def _hunyuan_says(body: dict[str, Any]) -> str:
    asked = body["messages"][-1]["content"][-1]["text"]
    if "JSON" in asked:
        return '[{"box": [50, 100, 500, 300], "text": "Rechnung 4711"}]'
    return _TRANSLATED if "翻译" in asked else _ORIGINAL


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("engines")
    with running_vllm() as lighton, running_vllm(model="tencent/HunyuanOCR") as hunyuan:
        lighton.always(says("Read by lighton\n\n![image](image_0.png) 100,100,400,400"))
        hunyuan.always(says(_hunyuan_says))
        file = folder / "engines.toml"
        file.write_text(_engine("lighton", lighton) + _engine("hunyuan", hunyuan))
        settings = {"PORTAL_ENGINES_FILE": str(file), "PORTAL_EMBEDDED": "off"}
        portal = start_portal(folder / "data", **settings, PORTAL_ACCEPT_LICENCES="tencent-hunyuan-community")
        yield Stack(portal, lighton, hunyuan)
        stop_portal(portal)


def _engine(name: str, server: ScriptedVllm) -> str:
    return f'[[engine]]\nname = "{name}"\nurl = "{server.url}"\nmodel = "{server.model}"\n'


@pytest.fixture
def alice(stack: Stack, browser: Browser) -> Iterator[Visitor]:
    context = browser.new_context(base_url=stack.portal.url, viewport={"width": 1280, "height": 900})
    yield register(context, stack.portal.url, "Alice")
    context.close()


def _choose(visitor: Visitor, elem_id: str, option: str) -> None:
    visitor.page.click(f"#{elem_id} input")
    visitor.page.get_by_role("option", name=option).click()


def _run(visitor: Visitor) -> None:
    scan = {"name": "scan.png", "mimeType": "image/png", "buffer": page_image("Rechnung 4711")}
    visitor.page.set_input_files(CHOOSE_FILES, [scan])  # type: ignore[list-item]
    visitor.page.locator("#drop .file").wait_for()
    visitor.page.click("#run")
    visitor.page.wait_for_url("**/?job=*")


def test_page_and_translation_stand_side_by_side(alice: Visitor) -> None:
    page = alice.open("/")
    expect(page.locator("#about-engine")).to_contain_text("Tencent is not affiliated")
    page.get_by_role("radio", name=re.compile("Translate")).check()
    expect(page.locator("#language input")).to_have_value("English")
    _choose(alice, "language", "Chinese")
    _choose(alice, "language", "English")
    _run(alice)
    pairs = page.locator("#page-translation .pair:not(.heads)")
    expect(pairs).to_have_count(4, timeout=_READ_MS)
    expect(pairs.nth(0)).to_have_text("Rechnung 4711Invoice 4711")
    expect(pairs.nth(2).locator("td")).to_have_text(["Papier", "9,00", "Paper", "9.00"])
    expect(page.locator("#page-translation .other").nth(1)).to_have_attribute("lang", "en")
    expect(page.locator(".job-title")).to_contain_text("Translate into English · hunyuan")
    assert "<img src=x" in pairs.nth(1).inner_text()
    assert page.locator("img[src=x]").count() == 0
    serious = [
        found["id"] for found in Axe().run(page).response["violations"] if found["impact"] in ("serious", "critical")
    ]
    assert serious == []
    with page.expect_download() as download:
        page.click("#download-markdown")
    written = Path(download.value.path()).read_text(encoding="utf-8")
    assert "# Rechnung 4711" in written
    assert "**Translation into English**\n\n# Invoice 4711" in written
    assert not alice.alerts
    assert not alice.faults


def test_lines_have_boxes_when_the_engine_is_asked_for_them(alice: Visitor, stack: Stack) -> None:
    page = alice.open("/")
    _choose(alice, "engine", "hunyuan")
    expect(page.locator("#mode")).to_be_visible()
    _choose(alice, "mode", "Lines with their places")
    _run(alice)
    expect(page.locator("#page-text")).to_contain_text("Rechnung 4711", timeout=_READ_MS)
    expect(page.locator(".boxes polygon")).to_have_count(1)
    expect(page.locator("#tab-translation")).to_be_hidden()
    expect(page.locator(".job-title")).to_contain_text("Text (Lines with their places) · hunyuan")
    assert not alice.faults


def test_page_without_boxes_is_read_and_stepped_through(alice: Visitor) -> None:
    page = alice.open("/")
    expect(page.locator("#mode")).to_be_hidden()
    _run(alice)
    expect(page.locator("#page-text")).to_contain_text("Read by lighton", timeout=_READ_MS)
    expect(page.locator(".flags .figure")).to_have_count(1)
    page.keyboard.press("j")
    expect(page.locator(".line.hot")).to_have_text("Read by lighton")
    page.locator(".line").first.click()
    expect(page.locator(".line.pinned")).to_have_count(1)
    assert not alice.faults


def test_tasks_follow_the_engine(alice: Visitor) -> None:
    page = alice.open("/")
    _choose(alice, "engine", "lighton")
    translate = page.get_by_role("radio", name=re.compile("Translate"))
    expect(translate).to_be_disabled()
    expect(page.locator("#task")).to_contain_text("cannot translate: that needs a text model")
    _choose(alice, "engine", "hunyuan")
    expect(translate).to_be_enabled()
