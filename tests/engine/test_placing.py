"""Values of an engine without places get the boxes of one beside it, which can neither fail nor delay the page."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from portal.domain import FieldSpec, FieldType, PageImage, Task, TaskPrompt
from portal.engine import placing
from portal.engine.base import PLAIN_CALL, Call
from portal.engine.embedded import EmbeddedEngine
from portal.engine.fakes import FakeEngine, Step, answers, blank, crashes, fails, fake_capability, hangs, written
from portal.engine.fields.answers import NO_SOURCE, from_answer
from portal.engine.fields.boxes import with_boxes
from portal.engine.fields.effort import Effort
from portal.engine.placing import PlacingEngine
from portal.errors import EngineError
from portal.page_text import Box, FieldValue, PageText

LINES = FieldSpec("items", FieldType.ROWS, children=(FieldSpec("what"), FieldSpec("count", FieldType.NUMBER)))
SPECS = (FieldSpec("number", FieldType.ID), FieldSpec("total", FieldType.MONEY), LINES)
SEEN = "Nr. RE-17\nBlue paint 1 litre\n1.234,50 €"
SAID = '{"number": "RE-17", "total": "1.234,50 €", "items": [{"what": "Blue paint", "count": "1"}]}'


class Placeless(FakeEngine):
    """Reads as a model does that writes text without places, and answers `said` when it is asked for fields."""

    said = SAID

    async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
        page = await super().recognise(image, replace(prompt, task=Task.EXTRACT), call)
        page = replace(page, lines=tuple(replace(line, box=None) for line in page.lines))
        return replace(page, fields=from_answer(self.said, page, prompt.fields)) if prompt.task is Task.FIELDS else page


def _read(
    seer: FakeEngine, page: PageImage, *, text: Step | None = None, seconds: float = 5.0, task: Task = Task.FIELDS
) -> PageText:
    async def reading() -> PageText:
        reader = Placeless(text or answers(SEEN))
        engine = PlacingEngine(reader, seer, most_seconds=seconds)
        soon = Call(ends_at=asyncio.get_running_loop().time() + 60)
        return await engine.recognise(page, TaskPrompt(task, SPECS if task is Task.FIELDS else ()), soon)

    return asyncio.run(reading())


def _boxes(page: PageText) -> list[Box | None]:
    assert page.fields is not None
    return [value.box for value in (*page.fields[:2], *page.fields[2].rows[0])]


def test_each_value_has_the_box_of_the_line_that_says_it(letter: PageImage) -> None:
    page = _read(FakeEngine(answers(SEEN)), letter)
    at = [line.box for line in written(SEEN).lines]
    assert _boxes(page) == [at[0], at[2], at[1], None]
    assert page.fields is not None
    assert (page.fields[0].how, page.fields[0].score) == ("by the model, seen on the page", 0.9)
    assert [line.box for line in page.lines] == [None] * 3


@pytest.mark.parametrize("step", [fails(), crashes(), hangs(), blank(), answers("Another page")])
def test_page_is_as_it_was_read_when_nothing_comes_of_the_second_reading(letter: PageImage, step: Step) -> None:
    page = _read(FakeEngine(step), letter, seconds=0.05)
    assert _boxes(page) == [None] * 4
    assert page.fields is not None
    assert [value.value for value in page.fields[:2]] == ["RE-17", "1234.50"]
    assert [value.messages for value in page.fields[:2]] == [(), ()]
    assert page.fields[0].how == "by the model, seen in the text"


def test_page_is_as_it_was_read_when_looking_for_its_boxes_takes_too_long(
    letter: PageImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long(*_: object) -> tuple[FieldValue, ...]:
        Effort(0.0).check()
        return ()

    monkeypatch.setattr(placing, "with_boxes", too_long)
    assert _boxes(_read(FakeEngine(answers(SEEN)), letter)) == [None] * 4


def test_no_box_is_given_when_the_page_was_seen_another_way_up(letter: PageImage) -> None:
    class Turned(FakeEngine):
        async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
            return replace(await super().recognise(image, prompt, call), rotation_degrees=90)

    assert _boxes(_read(Turned(answers(SEEN)), letter)) == [None] * 4


def test_failure_of_the_reader_is_the_pages_and_ends_the_second_reading(letter: PageImage) -> None:
    seer = FakeEngine(hangs())
    with pytest.raises(EngineError, match="stopped in mid-page"):
        _read(seer, letter, text=fails())
    assert seer.calls_now == 0


def test_second_reading_is_made_for_fields_alone(letter: PageImage) -> None:
    seer = FakeEngine()
    assert _read(seer, letter, task=Task.EXTRACT).fields is None
    assert seer.order == []


def test_page_has_no_boxes_when_its_deadline_is_near(letter: PageImage) -> None:
    async def reading() -> PageText:
        engine = PlacingEngine(Placeless(answers(SEEN)), FakeEngine(answers(SEEN, seconds=0.3)))
        near = Call(ends_at=asyncio.get_running_loop().time() + 1)
        return await engine.recognise(letter, TaskPrompt(Task.FIELDS, SPECS), near)

    assert _boxes(asyncio.run(reading())) == [None] * 4


def test_readings_with_boxes_are_told_apart_from_those_without() -> None:
    reader, seer = FakeEngine(), FakeEngine(capability=fake_capability("seer"))
    assert PlacingEngine(reader, seer).capability.profile_version == "1+boxes-1"


def test_invented_value_stays_marked_and_one_that_is_seen_is_not() -> None:
    values = (
        FieldValue("number", "RE-99", "RE-99", how="by the model", messages=(NO_SOURCE,)),
        FieldValue("total", "1234.50", "1.234,50 €", how="by the model", messages=(NO_SOURCE,)),
        FieldValue("items", rows=()),
    )
    invented, seen, _ = with_boxes(values, SPECS, written(SEEN))
    assert (invented, seen.messages, seen.box) == (values[0], (), written(SEEN).lines[2].box)


def test_embedded_engine_gives_the_boxes_of_a_real_page(letter: PageImage) -> None:
    async def reading() -> PageText:
        seer = EmbeddedEngine(1, page_seconds=100)
        try:
            reader = Placeless(answers("Total 419.50 EUR"))
            reader.said = '{"total": "419.50 EUR"}'
            engine = PlacingEngine(reader, seer, most_seconds=60)
            return await engine.recognise(letter, TaskPrompt(Task.FIELDS, (FieldSpec("total", FieldType.MONEY),)))
        finally:
            await seer.close()

    page = asyncio.run(reading())
    assert page.fields is not None
    box = page.fields[0].box
    assert box is not None
    assert abs(box[0] - 450) < 15
    assert abs(box[1] - 290) < 20
