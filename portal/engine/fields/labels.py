"""What documents call their fields: labels in eleven languages (labels.toml), each standing for a concept.

Labels are compared folded: no case, accents, white space or punctuation, and i, l and I alike, as OCR confuses them.
The names of fields are compared by `name_key`, which keeps digits ("address 1" is not "address 2") and i and l apart.
Where a page is read for a name it is `label_key`, which does not.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from portal.domain import FieldType
from portal.engine.fields.han import scripts

_FILE = Path(__file__).with_name("labels.toml")
_CHOICE = re.compile(r"\{([^{}]*)\}")
_LETTERS = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ß": "ss", "ł": "l", "đ": "d", "ı": "i", "|": ""})
_ALIKE = str.maketrans({"l": "i"})
_LATIN_END = 0x250
_LAST_ACCENT = "\u036f"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a label stands for; a weak one counts only where its concept has no better label on the page."""

    concept: str
    is_weak: bool


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Folded label → its meanings. `columns` are the labels that head the columns of line items."""

    labels: Mapping[str, tuple[Meaning, ...]]
    columns: Mapping[str, tuple[Meaning, ...]]
    types: Mapping[str, FieldType]

    def of(self, name: str) -> tuple[Meaning, ...]:
        """What a field of that name asks for; empty where the name is nobody's label."""
        key = folded(name.replace("_", " "))
        known = (*self.labels.get(key, ()), *self.columns.get(key, ()))
        own = name.strip().casefold().replace(" ", "_").replace("-", "_")
        return (*known, Meaning(own, is_weak=False)) if own in self.types else known


def folded_char(char: str) -> str:
    """The character as labels are compared: nothing for white space, punctuation and digits."""
    return _plain_char(char).translate(_ALIKE)


def _plain_char(char: str) -> str:
    char = char.casefold().translate(_LETTERS)
    if ord(char[:1] or " ") < _LATIN_END:
        char = unicodedata.normalize("NFD", char)
    return "".join(part for part in char.translate(_LETTERS) if part.isalpha() or is_vowel_sign(part))


def is_vowel_sign(char: str) -> bool:
    """True for a mark without which a word of its script is another word; accents of Latin letters are none."""
    return char > _LAST_ACCENT and unicodedata.category(char)[0] == "M"


def folded(text: str) -> str:
    """The whole text folded."""
    return "".join(map(folded_char, unicodedata.normalize("NFKC", text)))


def label_key(name: str) -> str:
    """What a field's name is looked for by: folded, with its digits as 0–9; empty for a name without letters."""
    return name_key(name).translate(_ALIKE)


def name_key(name: str) -> str:
    """The same with l and i told apart, as people and models write them."""
    text = unicodedata.normalize("NFKC", name.replace("_", " "))
    key = "".join(digit_of(char) or _plain_char(char) for char in text)
    return key if any(not char.isdigit() for char in key) else ""


def digit_of(char: str) -> str:
    """A digit of any script as 0–9; empty for any other character."""
    return str(unicodedata.digit(char)) if char.isdigit() else ""


@cache
def vocabulary() -> Vocabulary:
    """The labels of labels.toml, read once."""
    concepts = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    types = {concept: FieldType(table["type"]) for concept, table in concepts.items()}
    plain = {name: table for name, table in concepts.items() if not table.get("column")}
    columns = {name: table for name, table in concepts.items() if table.get("column")}
    return Vocabulary(_meanings(plain.items()), _meanings(columns.items()), types)


def _meanings(concepts: Iterable[tuple[str, Mapping[str, object]]]) -> dict[str, tuple[Meaning, ...]]:
    found: dict[str, dict[str, bool]] = {}
    for concept, table in concepts:
        for label in _labels(table):
            own = found.setdefault(folded(label), {})
            own[concept] = own.get(concept, True) and label.startswith("~")
    return {
        key: tuple(Meaning(concept, is_weak) for concept, is_weak in own.items()) for key, own in found.items() if key
    }


def _labels(table: Mapping[str, object]) -> Iterator[str]:
    for language, labels in table.items():
        if language not in ("type", "column"):
            for label in _parted(str(labels)):
                for spelled in _spelled_out(label.strip()):
                    yield from scripts(spelled) if language == "zh" else (spelled,)


def _parted(labels: str) -> list[str]:
    return re.split(r",\s*(?![^{]*\})", labels)


def _spelled_out(label: str) -> Iterator[str]:
    choice = _CHOICE.search(label)
    if choice is None:
        yield label
        return
    for part in choice[1].split("|"):
        yield from _spelled_out(label[: choice.start()] + part + label[choice.end() :])
