"""A language model's answer → values, each looked up on the page that the model was shown. Pure.

A model invents and is cut short. What its answer does not say stays empty, what is no value of its type is told and
not put right, and what stands nowhere on the page is marked, never hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import json_repair

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.labels import name_key
from portal.engine.fields.sheet import Sheet, Spot
from portal.engine.fields.values import Conventions, Found, find, normalised
from portal.page_text import FieldState, FieldValue, Line, PageText

NO_SOURCE = "no source found"
BY_MODEL = "by the model"
SEEN_BY_MODEL = f"{BY_MODEL}, seen on the page"
NO_JSON = "the model's answer is no JSON object"
CUT_SHORT = "the model's answer was malformed or cut short before this field"
_NOTHING = frozenset({"", "null", "none", "n/a", "na", "-", "–", "unknown", "not found", "无", "なし"})
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_MOST_ANSWER = 200_000
_MOST_ROWS = 200
_MOST_TEXT_ROWS, _LONGEST_ROW = 3000, 4000
_TRIVIAL = 2


def from_answer(answer: str, page: PageText, specs: Sequence[FieldSpec]) -> tuple[FieldValue, ...]:
    """The fields' values by the model's answer, in the order of `specs`.

    `page` is where they are looked up: its lines give boxes, its Markdown alone none. Keys that were not asked for
    are left out. Every field is there; with no JSON object in the answer each says so. Raises EngineError when it
    takes too long.
    """
    said, is_whole = _parsed(answer)
    if said is None:
        return tuple(FieldValue(spec.name, state=FieldState.RULE_FAILED, messages=(NO_JSON,)) for spec in specs)
    look_up = LookUp(page)
    return tuple(value for spec in specs for value in _values(spec, said, look_up, is_whole=is_whole))


def answer_schema(specs: Sequence[FieldSpec]) -> dict[str, Any]:
    """The JSON Schema that guides a model's answer: every field there, null where the page does not have it."""
    properties = {spec.name: _property(spec) for spec in specs}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _property(spec: FieldSpec) -> dict[str, Any]:
    description = {"description": spec.description} if spec.description else {}
    if spec.type is FieldType.ROWS:
        return {"type": "array", "items": answer_schema(spec.children)} | description
    scalar: dict[str, Any] = {"type": ["string", "null"]}
    if spec.allowed:
        scalar = {"enum": [*spec.allowed, None]}
    return ({"type": "array", "items": {"type": "string"}} if spec.many else scalar) | description


def _parsed(answer: str) -> tuple[dict[str, Any] | None, bool]:
    """The object in the answer, and whether it is whole."""
    text = _THOUGHT.sub("", answer[:_MOST_ANSWER])
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return None, False
    try:
        said, _ = json.JSONDecoder(strict=False).raw_decode(text[start:])
        is_whole = True
    except (ValueError, RecursionError):
        is_whole = False
        try:
            said = json_repair.loads(text[start:], skip_json_loads=True)
        except (ValueError, RecursionError):
            return None, False
    return _object(said), is_whole


def _object(said: Any) -> dict[str, Any] | None:
    """An object; also one in a list, and a list of {key, value} pairs, as some models answer."""
    if isinstance(said, dict):
        return said
    if not isinstance(said, list) or not all(isinstance(one, dict) for one in said):
        return None
    if len(said) == 1:
        return dict(said[0])
    pairs = {str(one.get("key", one.get("name"))): one["value"] for one in said if "value" in one}
    return pairs or None


class LookUp:
    """Where on a page a value stands."""

    def __init__(self, page: PageText) -> None:
        self.sheet = Sheet(page, {})
        self.text = page.text if page.lines else page.markdown
        self._folded = [_dense(spot.text) for spot in self.sheet.spots]
        self._whole = _dense(self.text)
        self._spots: dict[FieldType, dict[str, Spot]] = {}
        self._said: dict[FieldType, frozenset[str]] = {}

    @cached_property
    def conventions(self) -> Conventions:
        """How the page writes; for a page without lines what its text tells."""
        if self.sheet.spots:
            return self.sheet.conventions
        lines = tuple(Line(row, (0, 0, 1, 1), None) for row in self.text.splitlines())
        return Sheet(PageText(1, 1, lines, (), self.text), {}).conventions

    def spot(self, spec: FieldSpec, value: Found) -> Spot | None:
        """The line that has the value: with its type, else as text; of several the first."""
        self.sheet.effort.check()
        if spec.type not in (FieldType.TEXT, FieldType.ID):
            return self._typed_spots(spec.type).get(value.value)
        key = _dense(value.value)
        holding = [at for at, text in enumerate(self._folded) if key and key in text]
        if not holding or (len(key) <= _TRIVIAL and not self._stands_alone(holding, key)):
            return self._first_of_several(key)
        return self.sheet.spots[min(holding, key=lambda at: (len(self._folded[at]), at))]

    def is_in_text(self, spec: FieldSpec, value: Found) -> bool:
        """True when the text has the value, where no line has it."""
        if spec.type in (FieldType.TEXT, FieldType.ID):
            key = _dense(value.value)
            return len(key) > _TRIVIAL and key in self._whole
        return value.value in self._typed_text(spec.type)

    # Each type is looked for once a page: an answer may have a thousand values.
    def _typed_spots(self, type: FieldType) -> dict[str, Spot]:
        if type not in self._spots:
            found = self._spots[type] = {}
            for spot in self.sheet.spots:
                for one in find(spot.text, FieldSpec("", type), self.sheet.conventions):
                    found.setdefault(one.value, spot)
        return self._spots[type]

    def _typed_text(self, type: FieldType) -> frozenset[str]:
        if type not in self._said:
            rows = [row[:_LONGEST_ROW] for row in self.text.splitlines()[:_MOST_TEXT_ROWS]]
            found = (one.value for row in rows for one in find(row, FieldSpec("", type), self.conventions))
            self._said[type] = frozenset(found)
        return self._said[type]

    def _stands_alone(self, holding: list[int], key: str) -> bool:
        return any(self._folded[at] == key for at in holding)

    def _first_of_several(self, key: str) -> Spot | None:
        """A text over several lines: its first line, when the page's text has all of it together."""
        if len(key) <= _TRIVIAL or key not in self._whole:
            return None
        starts = (at for at, text in enumerate(self._folded) if len(text) > _TRIVIAL and key.startswith(text))
        at = next(starts, None)
        return None if at is None else self.sheet.spots[at]


def _dense(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _values(spec: FieldSpec, said: Mapping[str, Any], look_up: LookUp, *, is_whole: bool) -> list[FieldValue]:
    key = _key(spec.name, said)
    if key is None:
        return [FieldValue(spec.name, messages=() if is_whole else (CUT_SHORT,))]
    answered = said[key]
    if spec.type is FieldType.ROWS:
        return [_rows(spec, answered, look_up, is_whole=is_whole)]
    many = answered if isinstance(answered, list) else [answered]
    if not spec.many and len(many) > 1:
        told = f"the model gave {len(many)} values for one"
        return [FieldValue(spec.name, raw=_text(answered), state=FieldState.RULE_FAILED, messages=(told,))]
    return [_value(spec, one, look_up) for one in many[:_MOST_ROWS]] or [FieldValue(spec.name)]


def _key(name: str, said: Mapping[str, Any]) -> str | None:
    if name in said:
        return name
    own = name_key(name)
    alike = [key for key in said if own and name_key(str(key)) == own]
    return alike[0] if len(alike) == 1 else None  # of several nobody knows which was meant


def _rows(spec: FieldSpec, answered: Any, look_up: LookUp, *, is_whole: bool) -> FieldValue:
    if answered is None:
        return FieldValue(spec.name)
    if isinstance(answered, Mapping):
        answered = [answered]
    if not isinstance(answered, list) or not all(isinstance(row, Mapping) for row in answered):
        return FieldValue(
            spec.name, raw=_text(answered), state=FieldState.RULE_FAILED, messages=("the model's rows are no objects",)
        )
    rows = tuple(
        tuple(_values(child, row, look_up, is_whole=is_whole)[0] for child in spec.children)
        for row in answered[:_MOST_ROWS]
    )
    return FieldValue(spec.name, rows=rows)


def _value(spec: FieldSpec, answered: Any, look_up: LookUp) -> FieldValue:
    text = _text(answered)
    if text.strip().casefold() in _NOTHING:
        return FieldValue(spec.name)
    page = (
        Conventions(decimal_mark=".", currency=look_up.conventions.currency)
        if _is_number(answered)
        else look_up.conventions
    )
    found = normalised(text, spec, page)
    if found is None:
        told = f"the model's answer is no {spec.type}"
        return FieldValue(spec.name, raw=text, state=FieldState.RULE_FAILED, messages=(told,), how=BY_MODEL)
    return _sourced(spec, text, found, look_up)


def _sourced(spec: FieldSpec, text: str, found: Found, look_up: LookUp) -> FieldValue:
    spot = look_up.spot(spec, found)
    value = FieldValue(spec.name, found.value, text, found.currency, how=BY_MODEL)
    if spot is not None:
        return FieldValue(
            spec.name,
            found.value,
            text,
            found.currency,
            spot.box,
            spot.quad,
            round(spot.score, 3),
            SEEN_BY_MODEL,
        )
    if look_up.is_in_text(spec, found):
        return FieldValue(spec.name, found.value, text, found.currency, how=f"{BY_MODEL}, seen in the text")
    return FieldValue(value.name, value.value, value.raw, value.currency, how=value.how, messages=(NO_SOURCE,))


def _is_number(answered: Any) -> bool:
    return isinstance(answered, int | float) and not isinstance(answered, bool)


def _text(answered: Any) -> str:
    if answered is None:
        return ""
    if isinstance(answered, str):
        return answered[:2000]
    if isinstance(answered, float) and answered.is_integer():
        return str(int(answered))
    return json.dumps(answered, ensure_ascii=False, default=str)[:2000]
