"""A page through a (scripted) vLLM: what is sent, what comes of each failure, and that none is tried again."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path

import pytest
from PIL import Image
from pydantic import SecretStr

from portal.domain import Mode, PageImage, Task, TaskPrompt
from portal.engine.base import Call
from portal.engine.fakes import FakeEngine, answers
from portal.errors import EngineError, TaskUnavailable
from tests.engine.vllm_bench import HUNYUAN, Read, blank, make_engine, read_by
from tests.scripted_vllm import Failure, ScriptedVllm, fails, repeats, says, slow, unused_url


def test_page_is_read_as_the_profile_says(vllm: ScriptedVllm, page: PageImage, read: Read) -> None:
    vllm.always(says("# Invoice\n\n<table><tr><td>Paper</td><td>9.00</td></tr></table>\n\nTotal $x_1$"))
    text = read()
    assert text.markdown == "# Invoice\n\n| Paper | 9.00 |\n| --- | --- |\n\nTotal $x_1$"
    assert text.text == "Invoice\n\nPaper\t9.00\n\nTotal $x_1$"
    assert {line.box for line in text.lines} == {None}
    assert (text.width_px, text.height_px, text.confidence) == (1000, 500, None)
    [received] = vllm.received
    assert received.texts == []
    image = Image.open(io.BytesIO(base64.b64decode(received.images[0].removeprefix("data:image/png;base64,"))))
    assert image.size == (1540, 770)


def test_request_carries_its_id_its_priority_and_the_key(vllm: ScriptedVllm, page: PageImage) -> None:
    vllm.api_key = "a-secret"
    engine = make_engine(vllm, api_key=SecretStr("a-secret"))
    read_by(engine, page, TaskPrompt(), Call("pag_7-2", priority=-4))
    [received] = vllm.received
    assert received.headers["x-request-id"] == "pag_7-2"
    assert received.body["priority"] == -4
    assert received.headers["authorization"] == "Bearer a-secret"


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0c", "\x1e"])
def test_text_is_whole_when_it_holds_what_python_takes_for_a_line_end(
    vllm: ScriptedVllm, read: Read, mark: str
) -> None:
    vllm.next(says(f"Total{mark}9.00"))
    assert "".join(read().text.split()) == "".join(f"Total{mark}9.00".split())


def test_lines_have_boxes_in_page_pixels_when_spotted(vllm: ScriptedVllm, read: Read) -> None:
    vllm.model = HUNYUAN
    vllm.always(says('[{"box": [100, 200, 500, 300], "text": "Summe (netto)"}, {"box": [0, 0, 1000, 1'))
    text = read(TaskPrompt(mode=Mode.SPOTTING))
    assert [(line.text, line.box) for line in text.lines] == [("Summe (netto)", (100, 100, 500, 150))]


def test_confidence_comes_from_the_tokens_when_asked(vllm: ScriptedVllm, read: Read) -> None:
    vllm.always(says("Total 9.00\nThanks", logprob=-0.1))
    assert read(asks_scores=True).confidence == pytest.approx(0.905, abs=0.001)
    assert read().confidence is None


@pytest.mark.parametrize(
    ("failure", "code", "is_permanent"),
    [
        (Failure.UNAUTHORIZED, "engine_unauthorized", True),
        (Failure.UNKNOWN_MODEL, "engine_model_unknown", True),
        (Failure.IMAGE_REFUSED, "engine_image_refused", True),
        (Failure.CONTEXT_TOO_LONG, "engine_context_too_long", True),
        (Failure.NOT_JSON, "engine_answer_invalid", True),
        (Failure.NOT_JSON_CHUNK, "engine_answer_invalid", True),
        (Failure.POISON, "engine_failed", True),
        (Failure.UNREACHED, "engine_instance_lost", False),
        (Failure.CUT, "engine_stream_cut", False),
        (Failure.ERROR_CHUNK, "engine_stream_cut", False),
        (Failure.SHUTTING_DOWN, "engine_unavailable", False),
        (Failure.BUSY, "engine_unavailable", False),
    ],
)
def test_failure_is_told_once_and_in_words(
    vllm: ScriptedVllm, read: Read, failure: Failure, code: str, is_permanent: bool
) -> None:
    vllm.next(fails(failure))
    with pytest.raises(EngineError) as caught:
        read(api_key=SecretStr("a-secret"))
    assert (caught.value.code, caught.value.is_permanent) == (code, is_permanent)
    assert "a-secret" not in f"{caught.value.message} {caught.value.remedy} {caught.value.__cause__}"
    assert len(vllm.received) == 1


def test_engine_is_away_when_nothing_listens(vllm: ScriptedVllm, read: Read) -> None:
    with pytest.raises(EngineError) as caught:
        read(url=unused_url())
    assert (caught.value.code, caught.value.is_permanent) == ("engine_unavailable", False)


def test_silence_ends_the_call_and_the_generation(vllm: ScriptedVllm, read: Read) -> None:
    vllm.next(fails(Failure.HANG))
    with pytest.raises(EngineError) as caught:
        read(silence_seconds=0.2)
    assert (caught.value.code, caught.value.is_permanent) == ("engine_silent", False)
    vllm.wait_until(lambda: vllm.aborted == 1)


def test_slow_first_token_is_waited_for_longer_than_later_ones(vllm: ScriptedVllm, read: Read) -> None:
    vllm.next(slow(0.6, "Late"))
    assert read(silence_seconds=0.2, first_token_seconds=20).markdown == "Late"


def test_generation_is_aborted_when_the_caller_goes(vllm: ScriptedVllm, page: PageImage) -> None:
    vllm.always(fails(Failure.HANG))

    async def left() -> None:
        engine = make_engine(vllm)
        reading = asyncio.create_task(engine.recognise(page, TaskPrompt()))
        await asyncio.to_thread(vllm.wait_until, lambda: vllm.running == 1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await engine.close()

    asyncio.run(left())
    vllm.wait_until(lambda: vllm.aborted == 1)


def test_page_is_marked_as_cut_when_the_answer_is_too_long(vllm: ScriptedVllm, read: Read) -> None:
    vllm.next(fails(Failure.LENGTH, "A long page"))
    text = read()
    assert (text.truncated, text.markdown) == ("length", "A long page")


def test_loop_is_cut_early_and_read_again_with_other_sampling(vllm: ScriptedVllm, read: Read) -> None:
    vllm.has_repetition_detection = False
    vllm.next(repeats("| Paper | 9.00 |\n", after="# Invoice\n"), says("# Invoice\n\nAll of it"))
    text = read()
    assert (text.truncated, text.markdown) == (None, "# Invoice\n\nAll of it")
    assert [received.body["temperature"] for received in vllm.received] == [0.2, 0.6]
    assert vllm.received[0].body["repetition_detection"]["min_count"] >= 100
    vllm.wait_until(lambda: vllm.aborted == 1)


@pytest.mark.parametrize("has_detection", [True, False])
def test_page_is_marked_as_looping_when_it_loops_twice(vllm: ScriptedVllm, read: Read, has_detection: bool) -> None:
    vllm.has_repetition_detection = has_detection
    vllm.always(repeats("und so weiter, "))
    text = read()
    assert text.truncated == "repetition"
    assert text.markdown.count("und so weiter") <= 2
    assert len(vllm.received) == 2


def test_loop_is_read_on_the_fallback_when_there_is_one(vllm: ScriptedVllm, page: PageImage) -> None:
    vllm.always(repeats("und so weiter, "))
    engine = make_engine(vllm)
    engine.fallback = FakeEngine(answers("Read elsewhere"))
    assert read_by(engine, page, TaskPrompt()).text == "Read elsewhere"
    assert len(vllm.received) == 1


def test_page_is_blank_when_nothing_is_read_twice(vllm: ScriptedVllm, read: Read) -> None:
    vllm.always(fails(Failure.EMPTY))
    assert read().is_blank
    assert len(vllm.received) == 2


def test_blank_paper_is_asked_for_once(vllm: ScriptedVllm, read: Read, tmp_path: Path) -> None:
    vllm.always(says(" \n"))
    assert read(image=blank(tmp_path)).is_blank
    assert len(vllm.received) == 1


def test_task_is_refused_when_the_profile_does_not_know_it(vllm: ScriptedVllm, read: Read) -> None:
    with pytest.raises(TaskUnavailable, match="LightOnOCR-2 reads text but cannot translate"):
        read(TaskPrompt(task=Task.TRANSLATE, language="en"))
    assert vllm.received == []


def test_start_says_what_is_wrong(vllm: ScriptedVllm) -> None:
    assert _start_code(vllm) is None
    assert vllm.received[-1].body["max_tokens"] == 1
    assert _start_code(vllm, url=unused_url()) == "engine_unavailable"
    assert _start_code(vllm, model="other/model") == "engine_model_unknown"
    vllm.api_key = "a-secret"
    assert _start_code(vllm) == "engine_unauthorized"
    assert _start_code(vllm, api_key=SecretStr("a-secret")) is None
    vllm.max_model_len = 2048
    assert _start_code(vllm, api_key=SecretStr("a-secret")) == "engine_context_too_long"


def test_answer_is_kept_short_enough_for_the_context(vllm: ScriptedVllm, page: PageImage) -> None:
    vllm.max_model_len = 4200

    async def started() -> None:
        engine = make_engine(vllm)
        await engine.start()
        await engine.recognise(page, TaskPrompt())
        await engine.close()

    asyncio.run(started())
    assert vllm.received[-1].body["max_tokens"] == 1000


def _start_code(vllm: ScriptedVllm, **options: object) -> str | None:
    async def started() -> str | None:
        engine = make_engine(vllm, **options)
        try:
            await engine.start()
            await engine.probe()
        except EngineError as error:
            return error.code
        finally:
            await engine.close()
        return None

    return asyncio.run(started())
