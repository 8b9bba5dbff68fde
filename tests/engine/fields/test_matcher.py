"""Pages built line by line: label and value inline, right, below, in a row."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.matcher import from_page
from portal.engine.fields.specs import specs_from_names
from portal.page_text import FieldValue, Line, PageText

# Language → label and value of an invoice's number, date and total.
INVOICES = {
    "da": ("Fakturanr.: 4711", "Fakturadato: 3. marts 2026", "I alt at betale: 1.234,50 kr."),
    "de": ("Rechnungs-Nr.: 4711", "Rechnungsdatum: 3. März 2026", "Gesamtbetrag: 1.234,50 €"),
    "en": ("Invoice no. 4711", "Invoice date: 3 March 2026", "Total due: £1,234.50"),
    "es": ("Factura nº: 4711", "Fecha de emisión: 3 de marzo de 2026", "Total a pagar: 1.234,50 €"),
    "fr": ("Facture n° 4711", "Date de facturation : 3 mars 2026", "Net à payer : 1 234,50 €"),
    "it": ("Fattura n. 4711", "Data fattura: 3 marzo 2026", "Totale da pagare: € 1.234,50"),
    "ja": ("請求書番号：4711", "発行日：2026年3月3日", "ご請求金額：¥1,234"),
    "nl": ("Factuurnummer: 4711", "Factuurdatum: 3 maart 2026", "Te betalen: € 1.234,50"),
    "pt": ("Fatura n.º 4711", "Data de emissão: 3 de março de 2026", "Total a pagar: 1.234,50 €"),
    "sv": ("Fakturanr: 4711", "Fakturadatum: 2026-03-03", "Att betala: 1 234,50 kr"),
    "zh": ("发票号码：4711", "开票日期：2026年03月03日", "价税合计：¥1,234.50"),
}


def page(*lines: tuple[str, int, int], markdown: str | None = None) -> PageText:
    """A page of lines at (x, y), 24 pixels high, 12 pixels a character."""
    drawn = tuple(Line(text, (x, y, x + 12 * len(text), y + 24), 0.99) for text, x, y in lines)
    return PageText(1000, 1400, drawn, (), "\n".join(text for text, _, _ in lines) if markdown is None else markdown)


def found(text: PageText, *names: str) -> list[str | None]:
    return [value.value for value in from_page(text, specs_from_names(names))]


@pytest.mark.parametrize("language", INVOICES)
def test_labelled_values_are_found_in_each_language(language: str) -> None:
    text = page(*((line, 80, 100 + 60 * at) for at, line in enumerate(INVOICES[language])))
    total = "1234" if language == "ja" else "1234.50"
    assert found(text, "invoice number", "date", "total") == ["4711", "2026-03-03", total]


@pytest.mark.parametrize("name", ["Rechnungsnummer", "numero de factura", "請求書番号", "发票号码", "invoice_number"])
def test_a_field_is_understood_when_it_is_named_in_another_language(name: str) -> None:
    assert found(page(("Invoice no. 4711", 80, 100)), name) == ["4711"]


def test_values_are_found_right_of_their_labels_and_below() -> None:
    text = page(
        *(("Invoice number", 80, 100), ("4711", 500, 102)),
        *(("Date", 80, 200), ("Due date", 400, 200), ("03.03.2026", 80, 232), ("17.03.2026", 400, 232)),
    )
    values = from_page(text, specs_from_names(("invoice number", "date", "due date")))
    assert [value.value for value in values] == ["4711", "2026-03-03", "2026-03-17"]
    assert [value.how for value in values] == ["right of 'Invoice number'", "below 'Date'", "below 'Due date'"]
    assert values[0].box == (500, 102, 548, 126)


def test_the_total_is_neither_the_subtotal_nor_what_was_given() -> None:
    rows = (("Subtotal", "10.00"), ("VAT 20 %", "2.00"), ("Total", "12.00"), ("Cash", "20.00"), ("Change", "8.00"))
    lines = [(text, x, 100 + 40 * at) for at, row in enumerate(rows) for text, x in zip(row, (80, 600), strict=True)]
    assert found(page(*lines), "net", "tax", "total") == ["10.00", "2.00", "12.00"]


@pytest.mark.parametrize(
    "lines",
    [
        [("the total of all things is more than 12.00 parts", 80, 100)],
        [("Total items", 80, 100), ("5", 600, 100)],
        [("Total", 80, 100), ("see overleaf", 600, 100)],
        [("Delivery date: 03.03.2026", 80, 100), ("Due date: 17.03.2026", 80, 140)],
        [("03.03.2026", 80, 100), ("04.03.2026", 80, 140)],
        [],
    ],
)
def test_null_is_given_rather_than_a_guess(lines: Sequence[tuple[str, int, int]]) -> None:
    assert found(page(*lines), "total", "date", "invoice number") == [None, None, None]


def test_a_field_of_the_tenant_is_found_by_its_own_name() -> None:
    text = page(("Ship's master: Anna Lind", 80, 100), ("Berth", 80, 160), ("B-17", 400, 160))
    assert found(text, "ship's master", "berth number") == ["Anna Lind", None]
    assert [value.value for value in from_page(text, [FieldSpec("Berth", FieldType.ID)])] == ["B-17"]


def test_a_pattern_narrows_what_is_taken() -> None:
    text = page(("Ref AB-1 and CD-22", 80, 100))
    assert [value.value for value in from_page(text, [FieldSpec("code", FieldType.ID, pattern=r"CD-\d+")])] == ["CD-22"]


def test_all_values_are_given_when_many_are_asked() -> None:
    text = page(("a@example.org", 80, 100), ("b@example.org", 80, 140), ("a@example.org", 80, 180))
    values = from_page(text, [FieldSpec("email", FieldType.EMAIL, many=True)])
    assert [value.value for value in values] == ["a@example.org", "b@example.org"]


def test_line_items_are_rows_of_the_table() -> None:
    heads = ("Beschreibung", "Menge", "Einzelpreis", "Betrag")
    rows = (("Tür", "2", "10,00 €", "20,00 €"), ("Griff aus Messing", "1", "5,50 €", "5,50 €"))
    columns = (80, 400, 560, 760)
    lines = [
        (text, x, 100 + 40 * at) for at, row in enumerate((heads, *rows)) for text, x in zip(row, columns, strict=True)
    ]
    lines += [("Summe", 80, 240), ("25,50 €", 760, 240)]
    types = {"description": "text", "quantity": "number", "unit_price": "money", "amount": "money"}
    children = tuple(FieldSpec(name, FieldType(type)) for name, type in types.items())
    [value] = from_page(page(*lines), [FieldSpec("items", FieldType.ROWS, children=children)])
    assert [[cell.value for cell in row] for row in value.rows] == [
        ["Tür", "2", "10.00", "20.00"],
        ["Griff aus Messing", "1", "5.50", "5.50"],
    ]


def test_text_without_lines_is_matched_and_gives_no_boxes() -> None:
    markdown = "# Invoice\n\n| Invoice number | Date |\n| --- | --- |\n| 4711 | 2026-03-03 |\n\nTotal: 12.00 EUR"
    values = from_page(page(markdown=markdown), specs_from_names(("invoice number", "date", "total")))
    assert [value.value for value in values] == ["4711", "2026-03-03", "12.00"]
    assert {value.box for value in values} == {None}


def test_hostile_text_is_only_text() -> None:
    attack = "Total: " + "1" * 5000 + "." + "," * 5000 + "<img src=x onerror=alert(1)>"
    assert found(page((attack, 0, 0), ("\u202e: " * 400, 0, 40)), "total", "date", "name") == [None, None, None]


def test_the_same_values_are_found_on_a_tilted_page() -> None:
    def tilted(text: str, x: int, y: int) -> Line:
        width = 12 * len(text)
        y += round(x * 0.05)
        return Line(
            text, (x, y, x + width, y + 24), 0.99, (x, y, x + width, y + width * 0.05, x + width, y + 24, x, y + 24)
        )

    lines = (
        tilted("Total", 80, 100),
        tilted("12.00", 700, 100),
        tilted("Date", 80, 150),
        tilted("03.03.2026", 700, 150),
    )
    text = PageText(1000, 1400, lines, (), "", skew_degrees=2.86)
    values: tuple[FieldValue, ...] = from_page(text, specs_from_names(("total", "date")))
    assert [value.value for value in values] == ["12.00", "2026-03-03"]


@pytest.mark.parametrize("text", ["1 " * 5000, "Total: " * 2000, "合计" * 4000, "DE02" + "A1" * 4000, "a@" * 4000])
def test_the_work_on_a_line_is_bounded(text: str) -> None:
    values = from_page(page((text, 0, 0)), specs_from_names(("total", "iban", "email", "date")))
    assert len(values) == 4


def _sums(*rows: tuple[str, str]) -> PageText:
    lines = ((part, x, 100 + 60 * at) for at, row in enumerate(rows) for part, x in zip(row, (80, 600), strict=True))
    return page(*lines)


def test_label_of_two_things_means_the_one_that_adds_up() -> None:
    invoice = _sums(("合计金额", "¥1,000.00"), ("税额", "¥130.00"), ("价税合计", "¥1,130.00"))
    net, tax, total = from_page(invoice, specs_from_names(("net", "tax", "total")))
    assert (net.value, tax.value, total.value) == ("1000.00", "130.00", "1130.00")
    assert (net.how, net.box) == ("adds up with tax and total", invoice.lines[1].box)
    assert found(_sums(("合计金额", "¥1,000.00")), "net", "total") == [None, "1000.00"]


def test_of_two_labelled_amounts_the_one_that_adds_up_is_taken() -> None:
    rows = (("Subtotaal", "€ 717,97"), ("Exclusief BTW", "€ 593,36"), ("BTW", "€ 124,61"), ("Totaal", "€ 717,97"))
    assert found(_sums(*rows), "net", "tax", "total") == ["593.36", "124.61", "717.97"]
    assert found(_sums(*rows[:1], rows[1], rows[3]), "net", "total") == ["717.97", "717.97"]


def test_amount_without_a_known_label_is_found_by_what_it_adds_up_to() -> None:
    text = _sums(("Subtotal", "$1,000.00"), ("VAT", "$200.00"), ("Grrand tootal", "$1,200.00"), ("Cash", "$1,500.00"))
    assert found(text, "total") == ["1200.00"]


@pytest.mark.parametrize(
    "rows",
    [
        (("Subtotal", "$1,000.00"), ("VAT", "$200.00"), ("Something", "$1,250.00")),
        (("Subtotal", "$1,000.00"), ("VAT", "$0.00"), ("Something", "$1,000.00")),
        (("Subtotal", "8"), ("VAT", "2"), ("Table", "10")),
        (("Subtotal", "$1,000.00"), ("Something", "$1,200.00")),
    ],
)
def test_nothing_is_computed_that_does_not_stand_on_the_page(rows: tuple[tuple[str, str], ...]) -> None:
    assert found(_sums(*rows), "total") == [None]


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("發票號碼", "invoice number"),
        ("客戶編號", "customer number"),
        ("訂單號碼", "order number"),
        ("賬單編號", "invoice number"),
    ],
)
def test_chinese_labels_are_known_in_both_scripts(label: str, name: str) -> None:
    assert found(page((f"{label}：A4711", 80, 100)), name) == ["A4711"]


@pytest.mark.parametrize(
    "heads",
    [
        ("Item", "Qty", "Unit price", "Total"),
        ("商品", "数量", "单价", "总额"),
        ("Artikel", "Menge", "Einzelpreis", "Gesamt"),
    ],
)
def test_head_of_a_column_of_lines_is_no_total(heads: tuple[str, ...]) -> None:
    rows = (heads, ("Paint", "2", "10.00", "20.00"), ("Brush", "1", "5.00", "5.00"))
    cells = [(text, 80 + 220 * x, 100 + 40 * y) for y, row in enumerate(rows) for x, text in enumerate(row)]
    assert found(page(*cells), "total") == [None]
    assert found(page(*cells, ("Total", 520, 300), ("25.00", 740, 300)), "total") == ["25.00"]


@pytest.mark.parametrize(
    "label", ["折扣总额", "税费总额", "税项总额", "已付总额", "運費總額", "消费税合计", "割引合計"]
)
def test_sum_of_something_else_is_no_total(label: str) -> None:
    assert found(_sums((label, "130.00")), "total") == [None]
    assert found(_sums(("总额", "1,130.00"), (label, "1,430.00")), "total") == ["1130.00"]


@pytest.mark.parametrize("label", ["含税总额", "本期应付金额", "消費税込合計金額", "税后总额"])
def test_total_is_one_whatever_says_how_it_counts(label: str) -> None:
    assert found(_sums((label, "130.00")), "total") == ["130.00"]


def test_numbered_fields_take_the_value_of_their_own_number() -> None:
    text = page(
        *(("Reading 1: 55", 80, 100), ("Reading 2: 77", 80, 140), ("Reading 12: 99", 80, 180)),
        *(("Phone 2", 80, 240), ("0761 777123", 400, 242)),
    )
    names = ("reading 1", "reading_2", "Reading 3", "phone 1", "phone 2")
    types = (*[FieldType.NUMBER] * 3, *[FieldType.PHONE] * 2)
    specs = [FieldSpec(name, type) for name, type in zip(names, types, strict=True)]
    assert [value.value for value in from_page(text, specs)] == ["55", "77", None, None, "0761777123"]


def test_a_numbered_field_has_no_value_when_the_page_does_not_number() -> None:
    text = page(("Address: Main St 5", 80, 100), ("Reading 1.5: 55", 80, 140))
    assert found(text, "address 1", "address 2", "reading 1") == [None, None, None]


def test_words_that_differ_in_vowel_signs_are_told_apart() -> None:
    text = page(("कीमत: 55", 80, 100), ("कामत: 77", 80, 140))
    specs = (FieldSpec("कीमत", FieldType.NUMBER), FieldSpec("कामत", FieldType.NUMBER))
    assert [value.value for value in from_page(text, specs)] == ["55", "77"]


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (("Seal: 55", "Seai: 77"), ["55", "77"]),
        (("Seai: 77",), [None, "77"]),  # the label of the one is none of the other
    ],
)
def test_labels_belong_to_their_own_fields_when_names_differ_in_i_and_l(
    lines: tuple[str, ...], values: list[str | None]
) -> None:
    text = page(*((line, 80, 100 + 40 * at) for at, line in enumerate(lines)))
    specs = (FieldSpec("seal", FieldType.NUMBER), FieldSpec("seai", FieldType.NUMBER))
    assert [value.value for value in from_page(text, specs)] == values


def test_a_misread_label_is_found_when_no_other_field_has_its_name() -> None:
    assert [value.value for value in from_page(page(("SeaI: 55", 80, 100)), [FieldSpec("seal")])] == ["55"]


@pytest.mark.parametrize("markdown", ["-", "---", "| - |", "\n", "<tr>"])
def test_nothing_is_found_when_a_page_says_nothing_but_rules(markdown: str) -> None:
    assert found(PageText(1000, 1400, (Line(markdown, None, None),), (), markdown), "total") == [None]
