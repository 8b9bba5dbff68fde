"""Translations keep the shape of what they translate, whatever the model does to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import PageImage, Task, TaskPrompt
from portal.engine.answers import page_text
from portal.engine.answers.originals import without_original
from portal.engine.base import Call
from portal.engine.fakes import FakeEngine, answers, blank
from portal.engine.profiles.base import AnswerForm
from portal.engine.translating import TranslatingEngine
from portal.engine.translation import PIECE_CHARACTERS, Translator, pieces
from portal.engine.vllm.client import ChatClient
from portal.engine.vllm.options import ServerOptions
from portal.errors import EngineError
from portal.page_text import PageText
from tests.engine.vllm_bench import HUNYUAN, Read, read_by
from tests.scripted_vllm import Failure, ScriptedVllm, fails, repeats, running_vllm, says

IMAGE = PageImage(Path("page.png"), 600, 800)
PAGE = "# Rechnung\n\nGesamt $x_1^2$ und `code`\n\n| Ware | Preis |\n| --- | --- |\n| Papier | 9.00 |\n\n$$\na+b\n$$"


def _upper(body: dict[str, Any]) -> str:
    """A translator that shouts."""
    return str(body["messages"][-1]["content"]).upper()


def _changed(change: Callable[[str], str]) -> Callable[[dict[str, Any]], str]:
    return lambda body: change(str(body["messages"][-1]["content"]))


@pytest.fixture
def text_model() -> Any:
    with running_vllm(model="Qwen/Qwen3-8B") as server:
        server.always(says(_upper))
        yield server


def _client(server: ScriptedVllm) -> ChatClient:
    return ChatClient("translation", ServerOptions(server.url, server.model))


def _translated(server: ScriptedVllm, markdown: str) -> PageText:
    async def translating() -> PageText:
        client = _client(server)
        try:
            page = page_text(markdown, AnswerForm.MARKDOWN, IMAGE)
            return await Translator(client).translated(page, "en", Call("pag_1-1"))
        finally:
            await client.close()

    return asyncio.run(translating())


def _said(page: PageText) -> str:
    assert page.translation is not None
    return page.translation.markdown


def test_tables_formulas_and_numbers_survive(text_model: ScriptedVllm) -> None:
    page = _translated(text_model, PAGE)
    assert _said(page) == (
        "# RECHNUNG\n\nGESAMT $x_1^2$ UND `code`\n\n| WARE | PREIS |\n| --- | --- |\n| PAPIER | 9.00 |\n\n$$\na+b\n$$"
    )
    assert page.markdown == PAGE
    assert "into English" in text_model.received[0].texts[0]
    assert {received.headers["x-request-id"] for received in text_model.received} == {"pag_1-1"}


def test_table_is_translated_cell_by_cell_when_the_model_breaks_it(text_model: ScriptedVllm) -> None:
    text_model.always(says(_changed(lambda text: "no table" if "|" in text else text.upper())))
    assert _said(_translated(text_model, PAGE)).count("| PAPIER | 9.00 |") == 1


def test_text_stays_as_it_is_when_the_model_loses_a_formula_twice(text_model: ScriptedVllm) -> None:
    text_model.always(says(_changed(lambda text: text.replace("⟦1⟧", "").upper())))
    page = _translated(text_model, PAGE)
    assert "| PAPIER | 9.00 |" in _said(page)
    assert "Gesamt $x_1^2$ und `code`" in _said(page)
    assert page.translation is not None
    assert page.translation.untranslated == 1


@pytest.mark.parametrize("markdown", ["Gesamt $x$", "| $x$ Ware | $y$ Preis |\n| --- | --- |\n| $z$ Papier | 9 |"])
def test_page_fails_when_no_part_of_it_is_translated(text_model: ScriptedVllm, markdown: str) -> None:
    text_model.always(says("nothing of the kind"))
    with pytest.raises(EngineError) as caught:
        _translated(text_model, markdown)
    assert (caught.value.code, caught.value.is_permanent) == ("text_model_failed", True)
    assert "broke every part" in caught.value.message


def test_page_is_marked_as_cut_when_the_translation_loops(text_model: ScriptedVllm) -> None:
    text_model.always(repeats("und so weiter, "))
    sentence = "Ein Satz, der lang genug ist. " + "".join(f"Und {chr(97 + n)}{chr(122 - n)}! " for n in range(26)) * 2
    page = _translated(text_model, sentence.strip())
    assert (page.truncated, _said(page)) == ("repetition", sentence.strip())


def test_page_is_whole_when_a_table_that_looped_was_translated_cell_by_cell(text_model: ScriptedVllm) -> None:
    text_model.next(repeats("und so weiter, "), repeats("und so weiter, "))
    page = _translated(text_model, "| Ware | Preis |\n| --- | --- |\n| Papier | |\n| Tinte \\| rot | 9.00 |")
    assert page.translation is not None
    assert (page.truncated, page.translation.untranslated) == (None, 0)
    assert "| TINTE" in _said(page)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("$$x$$ ist die Summe", "$$x$$"),
        ("$$\nx\n$$ ist die Summe", "$$\nx\n$$"),
        ("$$ ohne Ende", ""),
        ("Der Preis ist $5 und die Gebühr $7", ""),
        ("Siehe ⟦1⟧ und $y$", "⟦1⟧|$y$"),
        ("```\ncode\n\nmore\n```\nText danach", "```\ncode\n\nmore\n```"),
        ("Text davor\n```\ncode\n```", "```\ncode\n```"),
        ("\\[\na\n\\] Text", "\\[\na\n\\]"),
    ],
)
def test_words_beside_formulas_code_and_marks_are_translated(text_model: ScriptedVllm, text: str, kept: str) -> None:
    page = PageText(1, 1, (), (), text)

    async def translating() -> PageText:
        client = _client(text_model)
        try:
            return await Translator(client).translated(page, "en", Call())
        finally:
            await client.close()

    expected = text.upper()
    for part in filter(None, kept.split("|")):
        expected = expected.replace(part.upper(), part)
    got = asyncio.run(translating())
    assert _said(got).split() == expected.split()
    assert got.translation is not None
    assert got.translation.untranslated == 0


def test_failure_of_the_text_model_is_the_pages(text_model: ScriptedVllm) -> None:
    text_model.next(fails(Failure.UNAUTHORIZED))
    with pytest.raises(EngineError) as caught:
        _translated(text_model, "Ein Satz")
    assert caught.value.code == "engine_unauthorized"


def test_long_pages_are_split_at_blocks(text_model: ScriptedVllm) -> None:
    paragraph = "".join(f"Ein Satz mit {chr(97 + n % 26)}{chr(97 + n * n % 25)} und Worten. " for n in range(60))
    table = "| Ware | Preis |\n| --- | --- |\n" + "| Papier | neun |\n" * 400
    page = _translated(text_model, "\n\n".join([paragraph.strip()] * 6 + [table.strip()]))
    assert len(text_model.received) > 3
    assert _said(page).count("UND WORTEN.") == 360
    assert _said(page).count("| PAPIER | NEUN |") == 400
    assert all(len(received.texts[-1]) <= PIECE_CHARACTERS + 100 for received in text_model.received)


@given(st.lists(st.text(alphabet="ab .|-$`\n", min_size=1, max_size=80), max_size=12))
def test_nothing_is_lost_when_a_page_is_split(blocks: list[str]) -> None:
    page = page_text("\n\n".join(blocks), AnswerForm.MARKDOWN, IMAGE)
    whole = "\n\n".join(piece.text for piece in pieces(page.markdown))
    assert "".join(whole.split()) == "".join(page.markdown.split())


def test_engine_that_only_reads_translates_with_a_text_model(text_model: ScriptedVllm) -> None:
    prompt = TaskPrompt(task=Task.TRANSLATE, language="en")
    engine = TranslatingEngine(FakeEngine(answers("Gesamt 9.00")), _client(text_model))
    page = read_by(engine, IMAGE, prompt)
    assert (page.text, _said(page)) == ("Gesamt 9.00", "GESAMT 9.00")
    nothing = TranslatingEngine(FakeEngine(blank()), _client(text_model))
    assert read_by(nothing, IMAGE, prompt).translation is None


def test_hunyuan_translates_from_the_image(
    text_model: ScriptedVllm, page: PageImage, vllm: ScriptedVllm, read: Read
) -> None:
    vllm.model = HUNYUAN
    vllm.next(says("合计 9.00"), says("Total 9.00"))
    got = read(TaskPrompt(task=Task.TRANSLATE, language="en"))
    assert (got.text, _said(got)) == ("合计 9.00", "Total 9.00")
    assert "翻译为英文" in vllm.received[1].texts[-1]


def test_hunyuans_answer_is_cut_after_the_page_itself_when_it_begins_with_that(vllm: ScriptedVllm, read: Read) -> None:
    vllm.model = HUNYUAN
    own = "# Rechnung Nummer 17\n\n<table><tr><td>Summe aller Waren</td><td>9.00</td></tr></table>"
    vllm.next(says(own), says(f"{own}\n\n---\n\n# Invoice number 17\n\nTotal 9.00"))
    assert _said(read(TaskPrompt(task=Task.TRANSLATE, language="en"))) == "# Invoice number 17\n\nTotal 9.00"


@pytest.mark.parametrize(
    ("original", "answer"),
    [
        ("Summe", "Summe\n\nTotal"),
        ("An invoice that is in English", "An invoice that is in English"),
        ("Rechnung Nummer siebzehn\n\nSumme", "Rechnung Nummer siebzehn\n\nTotal"),
        ("Rechnung Nummer siebzehn", "Rechnung Nummer siebzehn ist da"),
        ("Rechnung Nummer siebzehn", "Invoice\n\nRechnung Nummer siebzehn\n\nmore"),
    ],
)
def test_an_answer_stays_whole_when_it_may_be_the_translation(original: str, answer: str) -> None:
    assert without_original(answer, original) == answer


def test_generic_model_reads_then_translates_its_text(vllm: ScriptedVllm, read: Read) -> None:
    vllm.model = "Qwen/Qwen3-VL-8B"
    vllm.next(says("Gesamt"), says("Total"))
    got = read(TaskPrompt(task=Task.TRANSLATE, language="fr"))
    assert (got.text, _said(got)) == ("Gesamt", "Total")
    assert "into French" in vllm.received[1].texts[0]
    assert vllm.received[1].images == []
