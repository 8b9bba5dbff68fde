"""Sample pages for the reading of layouts: an article in two columns and a table of figures."""

from __future__ import annotations

from collections.abc import Sequence

from portal.ui.samples.paper import MARGIN_PX, Paper

_LEFT = (
    "Every autumn the tide pulls",
    "back from the old harbour",
    "and leaves a wide field of",
    "mud. For a few weeks, half",
    "a million birds rest here on",
    "their way to the south.",
    "",
    "Ringing them was slow work.",
    "Volunteers walked out at",
    "dawn, set the nets and wrote",
    "each number on a paper card.",
    "By 1998 there were forty",
    "thousand of these cards, in",
    "shoe boxes, under a stair.",
)
_RIGHT = (
    "Nobody could say how long a",
    "bird had lived without days",
    "of leafing. Then two students",
    "photographed the cards and",
    "had them read by a machine.",
    "",
    "The first answer came within",
    "an hour: a small dunlin had",
    "returned to the same bay for",
    "nineteen years in a row.",
    "",
    "The cards are back in their",
    "boxes. The birds, so far,",
    "keep coming.",
)


def article(paper: Paper) -> None:
    """An English magazine page: a headline over two columns."""
    paper.line("THE COAST REVIEW · OCTOBER 2026", size=22)
    paper.gap(10)
    paper.line("Forty thousand cards", size=60, is_bold=True)
    paper.line("How a village counted its birds, and lost count", size=30)
    paper.gap(16)
    paper.rule()
    paper.gap(10)
    top = paper.y
    _column(paper, _LEFT, x=MARGIN_PX)
    paper.y = top
    _column(paper, _RIGHT, x=MARGIN_PX + 425)


def table(paper: Paper) -> None:
    """An Italian table of figures with a head and a sum."""
    paper.line("Consorzio Olivicoltori di Città Sant'Elia", size=36, is_bold=True)
    paper.line("Produzione di olio, in quintali", size=28)
    paper.gap(30)
    paper.grid(
        (
            ("Comune", "2023", "2024", "2025", "Totale"),
            ("Borgo Forlì", "128", "141", "136", "405"),
            ("Castel Nibbio", "94", "87", "102", "283"),
            ("Pieve al Ponte", "210", "198", "223", "631"),
            ("San Donà Alto", "65", "71", "69", "205"),
            ("Vallescura", "152", "160", "149", "461"),
            ("Totale", "649", "657", "679", "1985"),
        ),
        (300, 125, 125, 125, 145),
        size=28,
    )
    paper.gap(10)
    paper.lines(
        (
            "I dati del 2025 sono provvisori: la raccolta è terminata",
            "più tardi del solito perché ha piovuto molto a novembre.",
        )
    )
    paper.gap(30)
    paper.line("Ufficio statistico, 15 gennaio 2026", size=24)


def _column(paper: Paper, texts: Sequence[str], *, x: int) -> None:
    for text in texts:
        paper.line(text, size=28, x=x)
        paper.gap(6)
