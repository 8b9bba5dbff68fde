from __future__ import annotations

import pytest

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.dates import LANGUAGES, month_names
from portal.engine.fields.values import Conventions, find, normalised, times

DATES = {
    "da": ("3. marts 2026", "den 3. marts 2026"),
    "de": ("Freiburg, 3. März 2026", "03.03.2026"),
    "en": ("March 3, 2026", "3rd March 2026"),
    "es": ("3 de marzo de 2026", "3 mar 2026"),
    "fr": ("3 mars 2026", "le 3 mars 2026"),
    "it": ("3 marzo 2026", "3 mar. 2026"),
    "ja": ("2026年3月3日", "令和8年3月3日"),
    "nl": ("3 maart 2026", "3 mrt 2026"),
    "pt": ("3 de março de 2026", "3/mar/2026"),
    "sv": ("3 mars 2026", "2026-03-03"),
    "zh": ("2026年03月03日", "2026/03/03"),
}
AMOUNTS = [
    ("1.267,35 €", "1267.35", "EUR"),
    ("€ 1.267,35", "1267.35", "EUR"),
    ("1 267,35 EUR", "1267.35", "EUR"),
    ("CHF 3'949.75", "3949.75", "CHF"),
    ("$1,267.35", "1267.35", "USD"),
    ("R$ 12,00", "12.00", "BRL"),
    ("RM 9.00", "9.00", "MYR"),
    ("1,234円", "1234", "JPY"),
    ("250:50 kr", "250.50", None),
    ("-12,50 €", "-12.50", "EUR"),
    ("12,- €", "12", "EUR"),
    ("人民币1,234.50", "1234.50", "CNY"),
    ("RMB 88.00", "88.00", "CNY"),
    ("新臺幣 1,234元", "1234", "TWD"),
]


def _found(text: str, type: FieldType, page: Conventions | None = None) -> list[str]:
    return [one.value for one in find(text, FieldSpec("field", type), page or Conventions())]


@pytest.mark.parametrize("language", LANGUAGES)
def test_dates_are_found_in_each_language(language: str) -> None:
    assert [_found(text, FieldType.DATE) for text in DATES[language]] == [["2026-03-03"]] * 2


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("二〇二四年三月五日", ["2024-03-05"]),
        ("二○二四年十月二十一日", ["2024-10-21"]),
        ("签于二零二四年十二月三十日", ["2024-12-30"]),
        ("中華民國113年3月5日", ["2024-03-05"]),
        ("二〇二四年十三月五日", []),
        ("二〇二四年三月十十日", []),
        ("二四年三月五日", []),
    ],
)
def test_days_in_chinese_numerals_are_read(text: str, days: list[str]) -> None:
    assert _found(text, FieldType.DATE) == days


def test_no_name_of_a_month_means_two_months() -> None:
    from babel import Locale

    for language in LANGUAGES:
        for month, name in Locale.parse(language).months["format"]["wide"].items():
            if ord(name[0]) < 0x3000 and name[0].isalpha():
                assert _found(f"5 {name} 2026", FieldType.DATE) == [f"2026-{month:02d}-05"], (language, name)
    assert set(month_names().values()) == set(range(1, 13))


@pytest.mark.parametrize("text", ["31.02.2026", "12.2026", "1.2.3", "ver. 10.11.12.13", "99/99/2026", "2026", "17:15"])
def test_nothing_is_made_of_what_is_no_date(text: str) -> None:
    assert _found(text, FieldType.DATE) == []


def test_the_page_decides_when_day_and_month_could_change_places() -> None:
    spec = FieldSpec("date", FieldType.DATE)
    [by_page] = find("03/04/2026", spec, Conventions(is_day_first=False))
    [unsettled] = find("03/04/2026", spec, Conventions())
    assert (by_page.value, by_page.is_sure) == ("2026-03-04", True)
    assert (unsettled.value, unsettled.is_sure) == ("2026-04-03", False)


@pytest.mark.parametrize(("text", "value", "currency"), AMOUNTS)
def test_amounts_are_normalised_with_their_currency(text: str, value: str, currency: str | None) -> None:
    [found] = find(text, FieldSpec("total", FieldType.MONEY), Conventions())
    assert (found.value, found.currency) == (value, currency)


@pytest.mark.parametrize("text", ["19 %", "2026-03-03", "08:41", "Art. 4711", "10.11.12.13", "19,0%"])
def test_nothing_is_made_of_what_is_no_amount(text: str) -> None:
    assert _found(text, FieldType.MONEY) == []


def test_a_lone_separator_follows_the_page() -> None:
    assert _found("1.234", FieldType.NUMBER, Conventions(decimal_mark=".")) == ["1.234"]
    assert _found("1.234", FieldType.NUMBER, Conventions(decimal_mark=",")) == ["1234"]


def test_an_iban_counts_only_with_its_check_digits() -> None:
    assert _found("IBAN DE02 1203 0000 0000 2020 51 BIC BYLADEM1001", FieldType.IBAN) == ["DE02120300000000202051"]
    assert _found("DE03 1203 0000 0000 2020 51", FieldType.IBAN) == []


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (FieldType.EMAIL, "Mail: Info@Example.org,", "info@example.org"),
        (FieldType.PHONE, "Tel. +49 (0)761 555 0142", "+497615550142"),
        (FieldType.ID, "RE-2026/0417", "RE-2026/0417"),
        (FieldType.NUMBER, "3,5", "3.5"),
    ],
)
def test_other_types_are_found(type: FieldType, text: str, value: str) -> None:
    assert _found(text, type) == [value]


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (FieldType.DATE, "soon"),
        (FieldType.MONEY, "12.00 or 13.00"),
        (FieldType.MONEY, "twelve 12"),
        (FieldType.IBAN, "DE00"),
        (FieldType.PHONE, "12"),
        (FieldType.TEXT, "  "),
    ],
)
def test_a_text_is_no_value_when_its_type_does_not_bear_it_out(type: FieldType, text: str) -> None:
    assert normalised(text, FieldSpec("field", type)) is None


def test_times_of_day_are_normalised() -> None:
    assert [one.value for one in times("12:43:15, 9.05 pm and 25:00")] == ["12:43:15", "21:05"]
