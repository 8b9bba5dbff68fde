"""Rows that line up become a table with the same number of cells in each row; the rest stay paragraphs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from portal.engine.reading_order import Fragment, in_rows
from portal.engine.tables import to_blocks
from portal.page_text import Block

_COLUMNS = (50, 400, 600, 800)


def _grid(cells: list[list[str]], top: int = 100, columns: tuple[int, ...] = _COLUMNS) -> list[Fragment]:
    """Fragments at fixed columns, 30 pixels a row; empty strings leave a gap."""
    placed = [
        (text, columns[column], top + 30 * row)
        for row, texts in enumerate(cells)
        for column, text in enumerate(texts)
        if text
    ]
    return [Fragment(i, text, x, y, x + 10 * len(text), y + 24) for i, (text, x, y) in enumerate(placed)]


def _blocks(fragments: list[Fragment]) -> list[tuple[str, list[list[str]]]]:
    texts = {fragment.index: fragment.text for fragment in fragments}
    return [
        (block.kind, [[" ".join(texts[i] for i in cell) for cell in row] for row in block.rows])
        for block in to_blocks(in_rows(fragments))
    ]


def _join(*parts: list[Fragment]) -> list[Fragment]:
    merged = [fragment for part in parts for fragment in part]
    return [
        Fragment(i, fragment.text, fragment.x0, fragment.y0, fragment.x1, fragment.y1)
        for i, fragment in enumerate(merged)
    ]


_ITEMS = [
    ["Article", "Number", "Price", "Sum"],
    ["Pen", "2", "1.50", "3.00"],
    ["Paper", "1", "4.00", "4.00"],
    ["Ink", "3", "2.00", "6.00"],
]


def test_grid_is_a_table_when_rows_line_up() -> None:
    assert _blocks(_grid(_ITEMS)) == [("table", _ITEMS)]


def test_cells_are_empty_when_a_row_has_gaps() -> None:
    cells = [*_ITEMS, ["", "", "Total", "13.00"]]
    assert _blocks(_grid(cells)) == [("table", cells)]


def test_paragraphs_stay_apart_when_they_surround_a_table() -> None:
    before, table = _grid([["Dear customer,"]], top=0), _grid(_ITEMS, top=200)
    after = _grid([["Thank you."], ["Yours sincerely"]], top=450)
    found = _blocks(_join(before, table, after))
    assert found == [
        ("text", [["Dear customer,"]]),
        ("table", _ITEMS),
        ("text", [["Thank you."], ["Yours sincerely"]]),
    ]


def test_columns_stay_apart_when_a_heading_spans_two() -> None:
    heading = [Fragment(0, "Number and price", 400, 100, 660, 124)]
    items = [*_ITEMS[1:], ["Clips", "9", "1.00", "9.00"]]
    found = _blocks(_join(heading, _grid([["Article", "", "", "Sum"], *items], top=100)))
    assert [kind for kind, _ in found] == ["table"]
    assert found[0][1][1:] == items
    assert [cell for cell in found[0][1][0] if cell] == ["Article", "Number and price", "Sum"]


def test_wrapped_line_joins_the_row_above_when_it_stands_alone() -> None:
    cells = [*_ITEMS[:2], ["in blue"], *_ITEMS[2:]]
    expected = [_ITEMS[0], ["Pen in blue", "2", "1.50", "3.00"], *_ITEMS[2:]]
    assert _blocks(_grid(cells)) == [("table", expected)]


_TALL_HEAD = [["Article", "", "Price", ""], ["and", "Number", "without", ""], ["colour", "", "", "Sum in all"]]


def _tall_table(body_pitch: int, head: list[list[str]]) -> list[Fragment]:
    """A head of three lines, 26 pixels apart, over three rows that stand `body_pitch` apart."""
    rows = [_grid([cells], top=300 + body_pitch * row) for row, cells in enumerate(_ITEMS[1:])]
    return _join(*(_grid([cells], top=300 - body_pitch - 26 * (2 - row)) for row, cells in enumerate(head)), *rows)


def test_head_is_one_row_when_its_lines_follow_closer_than_the_rows() -> None:
    head = ["Article and colour", "Number", "Price without", "Sum in all"]
    assert _blocks(_tall_table(60, _TALL_HEAD)) == [("table", [head, *_ITEMS[1:]])]


def test_head_stays_in_rows_when_the_gaps_do_not_tell() -> None:
    assert _blocks(_tall_table(30, _TALL_HEAD)) == [("table", [*_TALL_HEAD, *_ITEMS[1:]])]


def test_rows_stay_apart_when_close_ones_are_full() -> None:
    assert _blocks(_tall_table(60, [*_ITEMS[1:3], _ITEMS[0]]))[0][1][:2] == _ITEMS[1:3]


def test_rows_are_text_when_nothing_lines_up() -> None:
    fragments = [
        Fragment(
            2 * i + j, f"word{i}{j}", 50 + 170 * ((i * 3) % 4) + 400 * j, 30 * i, 300 + 300 * j + 40 * i, 30 * i + 24
        )
        for i in range(5)
        for j in range(2)
    ]
    assert {kind for kind, _ in _blocks(fragments)} == {"text"}


def test_text_rows_have_one_cell_when_fragments_stand_side_by_side() -> None:
    assert _blocks(_grid([["Date", "01.07.2020"]])) == [("text", [["Date 01.07.2020"]])]


_fragments = st.lists(
    st.tuples(st.integers(0, 900), st.integers(0, 900), st.integers(1, 400), st.integers(5, 40)), max_size=40
).map(lambda made: [Fragment(i, "x", x, y, x + w, y + h) for i, (x, y, w, h) in enumerate(made)])


@given(_fragments)
def test_every_fragment_is_in_one_cell_and_tables_are_rectangular(fragments: list[Fragment]) -> None:
    blocks = to_blocks(in_rows(fragments))
    assert sorted(_indices(blocks)) == list(range(len(fragments)))
    for block in blocks:
        widths = {len(row) for row in block.rows}
        assert len(widths) == 1
        assert (widths == {1}) == (block.kind == "text")


def _indices(blocks: list[Block]) -> list[int]:
    return [i for block in blocks for row in block.rows for cell in row for i in cell]
