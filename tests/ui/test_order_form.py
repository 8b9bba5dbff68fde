from __future__ import annotations

import json
from pathlib import Path

import pytest

from portal.domain import EngineCapability, Mode, Task, TaskPrompt
from portal.engine.fields.specs import specs_to_json
from portal.engine.fields.templates import BUILT_IN
from portal.errors import InvalidRequest, NotFound, TaskUnavailable
from portal.jobs.templates import Template
from portal.ui import offer, order_form

READER = EngineCapability(
    "embedded", "pp-ocr", "1", frozenset({Task.EXTRACT}), ("en",), {Task.TRANSLATE: "Needs a <language> model."}
)
TRANSLATOR = EngineCapability("gpu", "hunyuan", "1", frozenset({Task.TRANSLATE, Task.FIELDS}), ("en",))
INVOICE = Template("invoice", "Invoice", 1, BUILT_IN["invoice"])


def find(name: str) -> Template:
    if name != "invoice":
        raise NotFound("There is no such template.")
    return INVOICE


def _asked(value: object) -> TaskPrompt:
    wanted = value if isinstance(value, str) else json.dumps(value)
    return order_form.order(
        "fields", wanted, "", page_numbers=None, capabilities=[TRANSLATOR], find_template=find
    ).prompt


def test_a_template_is_named_only_when_its_rows_are_as_it_has_them() -> None:
    rows = specs_to_json(INVOICE.specs)
    for value in ({"template": "invoice"}, {"template": "invoice", "rows": rows}):
        prompt = _asked(value)
        assert (prompt.fields, prompt.template) == (INVOICE.specs, INVOICE.ref)
    changed = _asked({"template": "invoice", "rows": rows[:1]})
    assert (changed.field_names, changed.template) == (("seller",), None)
    assert _asked({"schema": {"properties": {"total": {"type": "number"}}}}).field_names == ("total",)
    assert _asked([{"name": "a"}]).field_names == ("a",)
    gone = _asked({"template": "gone", "rows": [{"name": "a"}]})
    assert (gone.field_names, gone.template) == (("a",), None)
    for written in ('["a"]', '{"properties": {"a": {"type": "string"}}}'):
        assert _asked({"json": written}).field_names == ("a",)


@pytest.mark.parametrize(
    "value", ["", "{", "[7]", '{"rows": []}', '{"schema": {}}', '{"template": "gone"}', '{"json": "{"}', "[" * 9999]
)
def test_a_form_is_refused_when_its_fields_cannot_be_read(value: str) -> None:
    with pytest.raises((InvalidRequest, NotFound)):
        _asked(value)


def test_the_reason_is_shown_and_the_task_disabled_when_no_engine_can_do_it() -> None:
    choices = order_form.task_choices([READER])
    translate = choices[choices.index('value="translate"') :]
    assert translate.startswith('value="translate" disabled')
    assert "Needs a &lt;language&gt; model." in translate
    assert 'value="extract" checked' in choices


def test_a_disabled_task_is_refused_when_a_browser_sends_it_anyway() -> None:
    with pytest.raises(TaskUnavailable, match="Translate: Needs a <language> model"):
        order_form.order("translate", "", "English", page_numbers=None, capabilities=[READER], find_template=find)
    with pytest.raises(InvalidRequest):
        order_form.order("summarise", "", "", page_numbers=None, capabilities=[READER], find_template=find)


def test_the_engine_that_can_is_ordered_when_the_default_cannot() -> None:
    order = order_form.order(
        "fields", "total, date\n iban ", "", page_numbers=(2,), capabilities=[READER, TRANSLATOR], find_template=find
    )
    assert (order.engine, order.prompt.field_names, order.page_numbers) == ("gpu", ("total", "date", "iban"), (2,))
    with pytest.raises(InvalidRequest, match="fields"):
        order_form.order("fields", " , ", "", page_numbers=None, capabilities=[TRANSLATOR], find_template=find)


ENGINES = [
    READER,
    EngineCapability(
        "gpu",
        "tencent/HunyuanOCR",
        "1",
        frozenset({Task.EXTRACT, Task.TRANSLATE}),
        ("zh", "en", "de", "fr"),
        modes=(Mode.DOCUMENT, Mode.SPOTTING),
        targets=("zh", "en"),
        purpose="Documents.",
        notice="Tencent is not <affiliated>.",
    ),
]


def test_order_goes_to_the_chosen_engine_in_its_mode_and_language() -> None:
    spotted = order_form.order(
        "extract",
        "",
        "",
        page_numbers=None,
        capabilities=ENGINES,
        engine_name="gpu",
        mode="spotting",
        find_template=find,
    )
    assert (spotted.engine, spotted.prompt.mode) == ("gpu", Mode.SPOTTING)
    automatic = order_form.order(
        "translate", "", "Chinese", page_numbers=None, capabilities=ENGINES, mode="spotting", find_template=find
    )
    assert (automatic.engine, automatic.prompt.language, automatic.prompt.mode) == ("gpu", "zh", Mode.DOCUMENT)


@pytest.mark.parametrize(
    ("task", "language", "choice", "refusal"),
    [
        ("translate", "en", {"engine_name": "embedded"}, TaskUnavailable),
        ("translate", "Klingon", {}, InvalidRequest),
        ("translate", "", {}, InvalidRequest),
        ("extract", "", {"engine_name": "other"}, InvalidRequest),
        ("extract", "", {"engine_name": "gpu", "mode": "guess"}, InvalidRequest),
    ],
)
def test_order_is_refused_when_a_browser_sends_what_was_not_offered(
    task: str, language: str, choice: dict[str, str], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        order_form.order(task, "", language, page_numbers=None, capabilities=ENGINES, find_template=find, **choice)


def test_offer_follows_engine_and_task() -> None:
    first = offer.offer(ENGINES, "", None)
    assert (first.task, first.modes, first.targets) == (Task.EXTRACT, [], [])
    assert "Tencent is not &lt;affiliated&gt;." in first.about
    assert "Reads Chinese, English, German and 1 more language." in first.about
    assert [value for _, value in offer.offer(ENGINES, "gpu", Task.EXTRACT).modes] == ["document", "spotting"]
    translating = offer.offer(ENGINES, "", Task.TRANSLATE, language="zh")
    assert (translating.targets, translating.target) == ([("Chinese", "zh"), ("English", "en")], "zh")
    fallen_back = offer.offer(ENGINES, "embedded", Task.TRANSLATE)
    assert (fallen_back.task, fallen_back.targets) == (Task.EXTRACT, [])
    assert "Tencent" not in fallen_back.about


def test_notice_is_shown_when_there_is_no_choice() -> None:
    assert "Tencent" in offer.offer(ENGINES[1:], "", None).about
    assert offer.offer(ENGINES[:1], "", None).about == ""


def test_files_keep_the_names_people_gave_when_gradio_cleaned_them(tmp_path: Path) -> None:
    path = tmp_path / "img.png"
    path.write_bytes(b"x")
    named = order_form.uploads([str(path)], json.dumps(["Rechnung <3>.png"]))
    assert [(upload.file_name, upload.path) for upload in named] == [("Rechnung <3>.png", path)]
    for garbage in ("", "{", "[]", json.dumps(["a", "b"]), json.dumps([""])):
        assert order_form.uploads([str(path)], garbage)[0].file_name == "img.png"


def test_uploading_again_is_asked_when_a_file_is_gone(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="expired"):
        order_form.uploads([str(tmp_path / "swept.png")], "[]")
    with pytest.raises(InvalidRequest, match="No file"):
        order_form.uploads([], "[]")
