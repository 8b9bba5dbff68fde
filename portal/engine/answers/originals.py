"""Translations that a checkpoint was asked for with the image: it is told to extract the text first, then translate.

HunyuanOCR's authors count on answers that repeat the source before the translation (their judge's prompt, train_verl/
reward/utils/prompt.py in github.com/Tencent-Hunyuan/HunyuanOCR, ignores it), and name no mark between the two. What is
certain is the text itself, which was read before: an answer is cut after it where it begins with all of it.
"""

from __future__ import annotations

import re
from typing import Final

_FEWEST_LETTERS: Final = 20  # a page that says less may begin its own translation
_RULE = re.compile(r"[\s*_=|:-]*")


def without_original(markdown: str, original: str) -> str:
    """The lines after the page's own text where an answer begins with that, letter for letter; else the whole."""
    own, at = _letters(original), 0
    lines = markdown.split("\n")
    if len(own) < _FEWEST_LETTERS:
        return markdown
    for number, line in enumerate(lines, start=1):
        said = _letters(line)
        if not own.startswith(said, at):
            return markdown
        at += len(said)
        if at == len(own):
            rest = _without_rules(lines[number:])
            return rest if _letters(rest) else markdown
    return markdown


def _without_rules(lines: list[str]) -> str:
    while lines and _RULE.fullmatch(lines[0]):
        lines = lines[1:]
    return "\n".join(lines).strip("\n")


def _letters(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())
