"""What a checkpoint answered, as a PageText: by the form that its profile says the answer is written in."""

from __future__ import annotations

from collections.abc import Sequence

from portal.domain import PageImage
from portal.engine.answers.boxes import listed_lines, placed_lines, without_figures
from portal.engine.answers.markdown_pages import written_page
from portal.engine.answers.raw_lines import RawLine, raw_lines, unfenced
from portal.engine.markdown import to_markdown
from portal.engine.profiles.base import AnswerForm
from portal.page_text import Block, Line, PageText


def page_text(
    text: str,
    form: AnswerForm,
    image: PageImage,
    *,
    marks: Sequence[tuple[int, float]] = (),
    truncated: str | None = None,
) -> PageText:
    """The page that the answer `text` describes. `marks` as `raw_lines` takes them; boxes in pixels of `image`."""
    raw = raw_lines(text, marks)
    figures: tuple[tuple[int, int, int, int], ...] = ()
    match form:
        case AnswerForm.SPOTTING:
            lines = placed_lines(text, image, raw)
            blocks = [Block("text", (((at,),),)) for at in range(len(lines))]
        case AnswerForm.SPOTTING_JSON:
            lines = listed_lines(text, image, raw)
            blocks = [Block("text", (((at,),),)) for at in range(len(lines))]
        case AnswerForm.TEXT:
            lines, blocks = _plain_page(_unfenced(raw))
        case AnswerForm.MARKDOWN:
            cleaned, figures = _without_figures(_unfenced(raw), image)
            page = written_page(cleaned)
            lines, blocks = page.lines, page.blocks
    return PageText(
        width_px=image.width_px,
        height_px=image.height_px,
        lines=tuple(lines),
        blocks=tuple(blocks),
        markdown=to_markdown(lines, blocks),
        confidence=_confidence(lines),
        truncated=truncated,
        figures=figures,
    )


def clean_markdown(text: str) -> str:
    """Generated Markdown as the portal keeps it: HTML tables as GitHub tables, no other HTML, no fence around it."""
    page = written_page(_unfenced(raw_lines(text)))
    return to_markdown(page.lines, page.blocks)


def _unfenced(raw: list[RawLine]) -> list[RawLine]:
    whole = "\n".join(line.text for line in raw)
    inner = unfenced(whole)
    if inner == whole:
        return raw
    first = whole[: whole.index(inner)].count("\n") if inner else 0
    return raw[first : first + inner.count("\n") + 1] if inner else []


def _without_figures(
    raw: Sequence[RawLine], image: PageImage
) -> tuple[list[RawLine], tuple[tuple[int, int, int, int], ...]]:
    read = [(*without_figures(line.text, image), line.score) for line in raw]
    cleaned = [RawLine(text, score) for text, _, score in read]
    return cleaned, tuple(box for _, boxes, _ in read for box in boxes)


def _plain_page(raw: Sequence[RawLine]) -> tuple[list[Line], list[Block]]:
    lines: list[Line] = []
    blocks: list[Block] = []
    rows: list[tuple[tuple[int, ...], ...]] = []
    for line in [*raw, RawLine("")]:
        if line.text.strip():
            rows.append(((len(lines),),))
            lines.append(Line(line.text.strip(), None, line.score))
        elif rows:
            blocks.append(Block("text", tuple(rows)))
            rows = []
    return lines, blocks


def _confidence(lines: Sequence[Line]) -> float | None:
    scored = [(line.score, len(line.text)) for line in lines if line.score is not None]
    letters = sum(length for _, length in scored)
    return sum(score * length for score, length in scored) / letters if letters else None
