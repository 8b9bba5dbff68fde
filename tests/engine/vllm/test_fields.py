"""Fields by engines on vLLM: what they are asked, and what becomes of good, partial, invented and broken answers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from portal.domain import FieldSpec, FieldType, PageImage, Task, TaskPrompt
from portal.engine.fakes import FakeEngine, answers, blank, fake_capability
from portal.engine.fields.answers import CUT_SHORT, NO_JSON, NO_SOURCE
from portal.engine.fields.matcher import from_page
from portal.engine.profiles import PROFILES
from portal.engine.translating import TranslatingEngine
from portal.engine.vllm import engine
from portal.engine.vllm.engine import VllmEngine
from portal.errors import EngineError
from portal.page_text import FieldState, FieldValue, PageText
from tests.engine.vllm_bench import HUNYUAN, Read, make_engine, read_by
from tests.scripted_vllm import Failure, ScriptedVllm, fails, repeats, running_vllm, says

QWEN = "Qwen/Qwen3-VL-8B"
SPECS = (
    FieldSpec("number", FieldType.ID),
    FieldSpec("date", FieldType.DATE, description="when it was bought"),
    FieldSpec("total", FieldType.MONEY),
)
ASKED = TaskPrompt(Task.FIELDS, SPECS)
SPOTTED = (
    "Weidenhof(80,40),(300,60)\nNr. RE-17(80,100),(300,140)\n3. März 2026(80,160),(300,200)\n"
    "1.234,50 €(600,240),(800,280)"
)
WRITTEN = "# Weidenhof\n\n| Nr. | Datum |\n| --- | --- |\n| RE-17 | 3. März 2026 |\n\nGesamt 1.234,50 €"
GOOD = {"number": "RE-17", "date": "3. März 2026", "total": "1.234,50 €"}


def _values(page: PageText) -> list[str | None]:
    return [value.value for value in _fields(page)]


def _fields(page: PageText) -> Sequence[FieldValue]:
    assert page.fields is not None
    return page.fields


def _hunyuan(vllm: ScriptedVllm, read: Read, answer: Any) -> PageText:
    vllm.model = HUNYUAN
    vllm.next(says(SPOTTED), answer)
    return read(ASKED, profile=PROFILES["hunyuanocr-1.0"])


def _qwen(vllm: ScriptedVllm, read: Read, answer: Any) -> PageText:
    vllm.model = QWEN
    vllm.next(says(WRITTEN), answer)
    return read(ASKED)


def test_hunyuan_is_asked_in_its_own_words_and_its_lines_give_the_boxes(vllm: ScriptedVllm, read: Read) -> None:
    page = _hunyuan(vllm, read, says(json.dumps(GOOD)))
    assert vllm.received[1].texts[-1] == "提取图片中的: ['number','date','total'] 的字段内容，并按照 JSON 格式返回。"
    assert "response_format" not in vllm.received[1].body
    assert _values(page) == ["RE-17", "2026-03-03", "1234.50"]
    assert [value.box for value in _fields(page)] == [page.lines[at].box for at in (1, 2, 3)]
    assert _fields(page)[2].currency == "EUR"


def test_generic_model_is_held_to_a_schema_and_its_values_are_seen_in_the_text(vllm: ScriptedVllm, read: Read) -> None:
    page = _qwen(vllm, read, says(json.dumps(GOOD)))
    asked = vllm.received[1]
    assert list(asked.body["response_format"]["json_schema"]["schema"]["properties"]) == ["number", "date", "total"]
    assert "- date (a date): when it was bought" in asked.texts[-1]
    assert len(asked.images) == 1
    assert _values(page) == ["RE-17", "2026-03-03", "1234.50"]
    assert [(value.box, value.messages) for value in _fields(page)] == [(None, ())] * 3
    assert page.markdown.startswith("# Weidenhof")


@pytest.mark.parametrize("ask", [_hunyuan, _qwen])
def test_missing_is_null_and_invented_is_marked(vllm: ScriptedVllm, read: Read, ask: Any) -> None:
    page = ask(vllm, read, says('{"number": "RE-99", "total": null, "extra": "x"}'))
    assert _values(page) == ["RE-99", None, None]
    assert [value.messages for value in _fields(page)] == [(NO_SOURCE,), (), ()]


@pytest.mark.parametrize("ask", [_hunyuan, _qwen])
@pytest.mark.parametrize("words", ["I see no invoice here.", "[1, 2", "null"])
def test_answer_that_is_no_json_is_told_and_the_text_is_kept(
    vllm: ScriptedVllm, read: Read, ask: Any, words: str
) -> None:
    page = ask(vllm, read, says(words))
    assert _values(page) == [None, None, None]
    assert {(value.state, value.messages) for value in _fields(page)} == {(FieldState.RULE_FAILED, (NO_JSON,))}
    assert "RE-17" in page.markdown


@pytest.mark.parametrize("ask", [_hunyuan, _qwen])
def test_what_came_before_the_cut_is_kept_and_the_page_is_marked(vllm: ScriptedVllm, read: Read, ask: Any) -> None:
    page = ask(vllm, read, fails(Failure.LENGTH, '{"number": "RE-17", "date": "3. Mä'))
    assert page.truncated == "length"
    assert _values(page)[0] == "RE-17"
    assert CUT_SHORT in _fields(page)[2].messages


def test_answer_that_loops_is_asked_for_once_more(vllm: ScriptedVllm, read: Read) -> None:
    vllm.model = QWEN
    vllm.next(says(WRITTEN), repeats('"x", ', after='{"number": ['), says(json.dumps(GOOD)))
    page = read(ASKED)
    assert (page.truncated, _values(page)) == (None, ["RE-17", "2026-03-03", "1234.50"])
    assert vllm.received[2].body["temperature"] == PROFILES["generic"].retry_sampling.temperature
    assert "response_format" in vllm.received[2].body


def test_failure_of_the_second_request_is_the_pages(vllm: ScriptedVllm, read: Read) -> None:
    with pytest.raises(EngineError) as caught:
        _qwen(vllm, read, fails(Failure.UNAUTHORIZED))
    assert caught.value.code == "engine_unauthorized"


def test_reader_without_prompts_finds_labels_in_its_text(vllm: ScriptedVllm, read: Read) -> None:
    vllm.always(
        says("# Weidenhof\n\nRechnungsnummer: RE-17\n\nRechnungsdatum: 3. März 2026\n\nGesamtbetrag 1.234,50 €")
    )
    page = read(TaskPrompt(Task.FIELDS, (FieldSpec("invoice number", FieldType.ID), *SPECS[1:])))
    assert _values(page) == ["RE-17", "2026-03-03", "1234.50"]
    assert [value.box for value in _fields(page)] == [None] * 3
    assert [received.texts for received in vllm.received] == [[]]


def test_labels_have_boxes_when_the_checkpoint_spots_but_takes_no_fields(vllm: ScriptedVllm, read: Read) -> None:
    vllm.model = HUNYUAN
    lines = [("Rechnungsdatum:", [80, 100, 300, 140]), ("3. März 2026", [320, 100, 480, 140])]
    vllm.always(says(json.dumps([{"box": box, "text": text} for text, box in lines])))
    page = read(TaskPrompt(Task.FIELDS, SPECS[1:2]))
    assert (_values(page), _fields(page)[0].box) == (["2026-03-03"], page.lines[1].box)


@pytest.mark.parametrize(
    "words", ["the value of the box, as printed in the upper part ", "金额应按照票据上打印的内容填写"]
)
def test_answer_has_room_when_many_fields_are_described(vllm: ScriptedVllm, read: Read, words: str) -> None:
    vllm.model = QWEN
    vllm.next(says(WRITTEN), says("{}"))
    specs = tuple(FieldSpec(f"field {n}", description=words * (200 // len(words.encode()))) for n in range(40))
    read(TaskPrompt(Task.FIELDS, specs))
    assert vllm.received[1].body["max_tokens"] >= 40 * 64


def test_answer_may_be_as_long_as_the_servers_context_leaves_room(vllm: ScriptedVllm, page: PageImage) -> None:
    vllm.model, vllm.max_model_len = QWEN, 32768
    vllm.next(says("the probe"), says(WRITTEN), says("{}"))

    async def reading() -> None:
        engine = make_engine(vllm)
        try:
            await engine.start()
            await engine.recognise(page, ASKED)
        finally:
            await engine.close()

    asyncio.run(reading())
    assert vllm.received[-1].body["max_tokens"] == PROFILES["generic"].max_tokens


def test_no_second_request_is_made_for_a_page_without_text(vllm: ScriptedVllm, read: Read) -> None:
    vllm.model = QWEN
    vllm.always(fails(Failure.EMPTY))
    assert _values(read(ASKED)) == [None] * 3
    assert not any("response_format" in received.body for received in vllm.received)


def _read_with(engine: VllmEngine, other: Any, page: PageImage, prompt: TaskPrompt) -> PageText:
    engine.picker = other
    return read_by(engine, page, prompt, others=[other])


def test_second_model_picks_the_fields_of_a_reader(vllm: ScriptedVllm, page: PageImage) -> None:
    vllm.always(says(WRITTEN))
    with running_vllm(model=QWEN) as second:
        second.always(says(json.dumps({**GOOD, "number": "RE-99"})))
        got = _read_with(make_engine(vllm), make_engine(second), page, ASKED)
    assert _values(got) == ["RE-99", "2026-03-03", "1234.50"]
    assert _fields(got)[0].messages == (NO_SOURCE,)
    assert "RE-17" in got.markdown
    assert (len(vllm.received), len(second.received)) == (1, 1)


def test_engine_with_boxes_picks_the_fields_of_a_reader(vllm: ScriptedVllm, page: PageImage) -> None:
    vllm.always(says(WRITTEN))
    capable = fake_capability()
    other = FakeEngine(
        answers("Date: 2026-03-03"),
        capability=type(capable)(**{**_slots(capable), "tasks": frozenset({Task.EXTRACT, Task.FIELDS})}),
    )
    got = _read_with(make_engine(vllm), other, page, TaskPrompt(Task.FIELDS, SPECS[1:2]))
    assert (_values(got), got.markdown[:3]) == (["2026-03-03"], "# W")
    assert _fields(got)[0].box is not None
    assert _values(_read_with(make_engine(vllm), _blank(other), page, ASKED)) == [None] * 3


def _slots(capability: Any) -> dict[str, Any]:
    return {name: getattr(capability, name) for name in capability.__slots__}


def _blank(other: FakeEngine) -> FakeEngine:
    return FakeEngine(blank(), capability=other.capability)


def test_fields_pass_through_an_engine_that_translates_with_a_text_model(vllm: ScriptedVllm, page: PageImage) -> None:
    vllm.always(says("Total 9.00"))
    engine = make_engine(vllm)
    both = TranslatingEngine(engine, engine.client)
    assert Task.FIELDS in both.capability.tasks
    got = read_by(both, page, TaskPrompt(Task.FIELDS, SPECS[2:]))
    assert _values(got) == ["9.00"]


def test_plain_pages_are_read_while_costly_fields_hold_their_threads(
    vllm: ScriptedVllm, page: PageImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def held(text: PageText, specs: Sequence[FieldSpec]) -> tuple[FieldValue, ...]:
        begun.release()
        go_on.wait(30)
        return from_page(text, specs)

    async def reading() -> tuple[PageText, list[PageText]]:
        vllm_engine = make_engine(vllm, profile=PROFILES["lightonocr-2"])
        costly = [asyncio.create_task(vllm_engine.recognise(page, ASKED)) for _ in range(4)]
        for _ in range(2):
            await asyncio.to_thread(begun.acquire)
        try:
            plain = await vllm_engine.recognise(page, TaskPrompt())
        finally:
            go_on.set()
        fields = [await one for one in costly]
        await vllm_engine.close()
        return plain, fields

    monkeypatch.setattr(engine, "from_page", held)
    vllm.always(says("Total 9.00"))
    plain, costly = asyncio.run(reading())
    assert plain.text == "Total 9.00"
    assert [_values(one)[2] for one in costly] == ["9.00"] * 4
