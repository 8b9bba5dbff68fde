"""Inline marks of generated Markdown: HTML that models put where Markdown would do is turned into it or taken out.

Only tags that HTML has are touched, so `a < b` and `<Ort, Datum>` stay what the page says. What is left and would be
taken for markup elsewhere (a tag, a link) is escaped: a scan can say anything. Formulas and code are left alone.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Final

# A `$` after a digit is a price's ("5$, dann 7$"), unless TeX follows, as in "25$^\circ$C". "$5 and $7" are prices too:
# what begins with a number does not end before one.
_OPENS = r"(?<!\\)(?:(?<!\d)\$|\$(?=[ ]?[\\^_{]))"
_FORMULA = rf"{_OPENS}(?:(?![ ]?\d)[^$\n]{{1,2000}}?(?<!\\)\$|(?=[ ]?\d)[^$\n]{{1,2000}}?(?<!\\)\$(?![ ]?\d))"
# Formulas and code spans. Bounded, so that no answer can make it slow.
KEPT = re.compile(rf"(\$\$.{{1,2000}}?\$\$|{_FORMULA}|\\\(.{{1,2000}}?\\\)|\\\[.{{1,2000}}?\\\]|`[^`\n]+`)", re.DOTALL)
_TAG_NAMES = (
    "abbr|article|b|big|blockquote|body|br|center|code|dd|del|div|dl|dt|em|figcaption|figure|font|footer|h[1-6]|head|"
    "header|hr|html|i|ins|label|li|main|mark|ol|p|page_number|pre|q|s|section|small|span|strike|strong|sub|sup|u|ul|"
    "watermark"
)
_TAG = re.compile(rf"<(/?)({_TAG_NAMES})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.{0,2000}?-->", re.DOTALL)
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
_MARKS: Final = {"b": "**", "strong": "**", "i": "*", "em": "*", "s": "~~", "del": "~~", "strike": "~~"}
_LINE_TAGS: Final = frozenset({"br", "p", "div", "li", "hr", "center", "blockquote", "section", "header", "footer"})
_RAISED: Final = str.maketrans("0123456789+-()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ")
_LOWERED: Final = str.maketrans("0123456789+-()", "₀₁₂₃₄₅₆₇₈₉₊₋₍₎")
_SHIFTED = re.compile(r"<(sup|sub)>([^<>]{1,12})</\1>", re.IGNORECASE)

_PLAIN = (
    (re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$"), r"\1"),
    (re.compile(r"^\s{0,3}>\s?"), ""),
    (re.compile(r"(\*\*\*|\*\*|__)(?=\S)(.{1,500}?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]{1,500}?)(?<=[^\s*])\*(?![\w*])"), r"\1"),
    (re.compile(r"~~(?=\S)(.{1,500}?)(?<=\S)~~"), r"\1"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
)


_MARKUP = re.compile(r"(?<!\\)(?:<(?=[A-Za-z/!?])|\[(?=[^\[\]\n]*\]\())")
_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")


def outside_formulas(
    text: str, change: Callable[[str], str], change_kept: Callable[[str], str] = lambda kept: kept
) -> str:
    """The text with `change` made to all of it but formulas and code, and `change_kept` to those."""
    parts = KEPT.split(text)
    return "".join(change_kept(part) if at % 2 else change(part) for at, part in enumerate(parts))


def harmless_formula(text: str) -> str:
    """A formula or code span in which nothing is a tag: in LaTeX a space after `<` says nothing."""
    return text if text.startswith("`") else _TAG_START.sub("< ", text)


def formulas(text: str) -> list[str]:
    """The formulas and code spans of the text, in order."""
    return KEPT.findall(text)


def without_html(text: str) -> str:
    """Markdown without HTML: breaks as line breaks, bold as `**`, other tags gone, character references resolved."""
    return outside_formulas(text, _without_html, harmless_formula)


def _without_html(text: str) -> str:
    text = _SHIFTED.sub(_shifted, _COMMENT.sub("", text))
    text = _ENTITY.sub(lambda found: html.unescape(found.group()).replace("\xa0", " "), _TAG.sub(_tag, text))
    return _MARKUP.sub(lambda found: "\\" + found.group(), text)


def _shifted(found: re.Match[str]) -> str:
    kind, content = found.group(1).lower(), found.group(2)
    table = _RAISED if kind == "sup" else _LOWERED
    return content.translate(table) if all(ord(char) in table for char in content) else content


def _tag(found: re.Match[str]) -> str:
    closing, name = found.group(1), found.group(2).lower()
    if name in _MARKS:
        return _MARKS[name]
    if name[0] == "h" and name[1:].isdigit():
        return "\n" if closing else f"\n{'#' * int(name[1:])} "
    if name == "li" and not closing:
        return "\n- "
    return "\n" if name in _LINE_TAGS else ""


def plain(markdown: str) -> str:
    """One line of Markdown as people read it: without heading marks, emphasis and escapes; formulas as they are."""
    return outside_formulas(markdown, _plain).strip()


def _plain(text: str) -> str:
    for pattern, replacement in _PLAIN:
        text = pattern.sub(replacement, text)
    return text
