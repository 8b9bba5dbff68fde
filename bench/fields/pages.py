"""Draws receipts and invoices of made-up houses (houses.toml) with known field values.

Everything follows from the house and a seed, so the pages are the same on each machine. The paper is that of the
samples (portal/ui/samples/paper.py).
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from babel.dates import format_date

from portal.ui.samples.paper import MARGIN_PX, WIDTH_PX, Paper

HOUSES = Path(__file__).with_name("houses.toml")
SPLITS = ("train", "test")
SEEDS = (11, 29, 47)
_IBANS = ("DE02120300000000202051", "NL91ABNA0417164300", "FR1420041010050500013M02606", "ES9121000418450200051332")
_NO_CENTS = ("¥#,###", "#,###円")
_HALF = (MARGIN_PX + WIDTH_PX) // 2


@dataclass(frozen=True)
class Drawn:
    """One page: its name, language, kind, and the true value of each field (normalised)."""

    name: str
    language: str
    split: str
    kind: str
    seed: int
    house: dict[str, Any]
    truth: dict[str, str] = field(default_factory=dict)

    def draw(self, target: Path) -> dict[str, str]:
        """Writes the page as a PNG; gives the true values."""
        pen = _Pen(self)
        (pen.invoice if self.kind == "invoice" else pen.receipt)()
        pen.paper.image.save(target, format="PNG")
        return pen.truth


def pages(split: str) -> Iterator[Drawn]:
    """All pages of one half, language by language."""
    houses = tomllib.loads(HOUSES.read_text(encoding="utf-8"))
    for language in sorted(houses):
        for kind, house in houses[language][split].items():
            for seed in SEEDS:
                yield Drawn(f"{language}-{split}-{kind}-{seed}", language, split, kind, seed, house)


class _Pen:
    def __init__(self, page: Drawn) -> None:
        self.house, self.language = page.house, page.language
        self.random = random.Random(f"{page.name}")
        self.paper = Paper()
        self.truth: dict[str, str] = {}
        self.day = date(2024, 1, 1) + timedelta(days=self.random.randrange(700))
        self.items = self._items()

    def _items(self) -> list[tuple[str, int, Decimal]]:
        names = self.random.sample(self.house["items"], 4)
        cents = Decimal(1) if self.house["money"] in _NO_CENTS else Decimal("0.01")
        return [
            (name, self.random.randint(1, 6), (Decimal(self.random.randrange(250, 48000)) / 100).quantize(cents))
            for name in names
        ]

    def _sums(self) -> tuple[Decimal, Decimal, Decimal]:
        net = sum((count * price for _, count, price in self.items), Decimal(0))
        cents = Decimal(1) if self.house["money"] in _NO_CENTS else Decimal("0.01")
        tax = (net * Decimal("0.2")).quantize(cents, ROUND_HALF_UP)
        return net, tax, net + tax

    def money(self, amount: Decimal) -> str:
        """The amount as the house writes it."""
        pattern = str(self.house["money"])
        prefix, suffix = pattern[: pattern.index("#")], pattern[pattern.rindex("#") + 1 :]
        body = pattern[len(prefix) : len(pattern) - len(suffix)]
        group, mark = body[1], body[5] if len(body) > 5 else ""
        text = f"{amount:,.2f}" if mark else f"{amount:,.0f}"
        return prefix + text.replace(",", "\0").replace(".", mark).replace("\0", group) + suffix

    def dated(self, day: date) -> str:
        """The day as the house writes it."""
        if self.house["date_format"] == "era":
            return f"令和{day.year - 2018}年{day.month}月{day.day}日"
        return format_date(day, self.house["date_format"], locale=self.language)

    def number(self, digits: int, prefixes: tuple[str, ...] = ("",)) -> str:
        """A number of so many digits with one of the prefixes."""
        return self.random.choice(prefixes) + str(self.random.randrange(10 ** (digits - 1), 10**digits))

    def invoice(self) -> None:
        """A4: the house on top, facts in one of three layouts, a table, sums, and the bank."""
        paper = self.paper
        paper.line(self.house["seller"], size=38, is_bold=True)
        if "phone" in self.house:
            phone = f"0{self.number(2)} {self.number(3)} {self.number(4)}"
            paper.line(f"{self.house['phone']} {phone} · info@{self.language}-example.org", size=22)
            self.truth |= {"phone": phone.replace(" ", ""), "email": f"info@{self.language}-example.org"}
        paper.gap(60)
        paper.line(self.house["title"], size=44, is_bold=True)
        paper.gap(10)
        {"inline": self._inline, "stacked": self._stacked, "columns": self._in_columns}[self.house["layout"]](
            self._facts()
        )
        paper.gap(30)
        rows = [(name, str(count), self.money(price), self.money(count * price)) for name, count, price in self.items]
        paper.grid([self.house["columns"], *rows], (310, 140, 190, 190), size=24)
        self._sums_of(26)
        iban = self.random.choice(_IBANS)
        self.truth["iban"] = iban
        paper.gap(20)
        paper.line("IBAN " + " ".join(iban[at : at + 4] for at in range(0, len(iban), 4)), size=24)

    def _facts(self) -> list[tuple[str, str]]:
        due = self.day + timedelta(days=self.random.choice((14, 30)))
        values = {
            "number": self.number(6, ("", "RE-", "2024/", "F")),
            "date": self.dated(self.day),
            "customer": self.number(5, ("", "K")),
            "order": self.number(7),
            "delivery": self.dated(self.day - timedelta(days=5)),
            "due": self.dated(due),
        }
        self.truth |= {"date": self.day.isoformat(), "due_date": due.isoformat()}
        self.truth |= {"invoice_number": values["number"], "customer_number": values["customer"]}
        return [(self.house[key], value) for key, value in values.items() if key in self.house]

    def _inline(self, facts: list[tuple[str, str]]) -> None:
        for label, value in facts:
            self.paper.line(f"{label.rstrip(':')}: {value}", size=26, x=_HALF - 75)

    def _in_columns(self, facts: list[tuple[str, str]]) -> None:
        for label, value in facts:
            self.paper.put(label, MARGIN_PX, size=26)
            self.paper.line(value, size=26, x=MARGIN_PX + 340)

    def _stacked(self, facts: list[tuple[str, str]]) -> None:
        for at in range(0, len(facts), 3):
            row = facts[at : at + 3]
            for place, (label, _) in enumerate(row):
                self.paper.put(label, MARGIN_PX + 280 * place, size=22)
            self.paper.y += 36
            for place, (_, value) in enumerate(row):
                self.paper.put(value, MARGIN_PX + 280 * place, size=26)
            self.paper.y += 62

    def _sums_of(self, size: int) -> None:
        net, tax, total = self._sums()
        self.truth |= {"net": str(net), "tax": str(tax), "total": str(total)}
        for key, amount in (("net", net), ("tax", tax), ("total", total)):
            self.paper.pair(self.house[key], self.money(amount), size=size, is_bold=key == "total")

    def receipt(self) -> None:
        """A till receipt: names left, amounts right, sums, payment, and the facts above or below."""
        paper, is_above = self.paper, self.random.random() < 0.5
        paper.line(self.house["seller"], size=44, side="middle", is_bold=True)
        paper.line(f"{self.number(2)} {self.random.choice(self.house['items'])[:3]}. 12", size=24, side="middle")
        if is_above:
            self._receipt_facts()
        paper.rule()
        for name, count, price in self.items:
            paper.pair(f"{count} x {name}", self.money(count * price), size=30)
        paper.rule()
        self._sums_of(32)
        _, _, total = self._sums()
        given = total + 50 if "change" in self.house else total
        paper.pair(self.house["cash"], self.money(given), size=30)
        if "change" in self.house:
            paper.pair(self.house["change"], self.money(given - total), size=30)
        paper.rule()
        if not is_above:
            self._receipt_facts()

    def _receipt_facts(self) -> None:
        number = self.number(6)
        self.truth |= {"date": self.day.isoformat(), "invoice_number": number}
        time = f"{self.random.randint(8, 20):02d}:{self.random.randint(10, 59)}"
        label = f"{self.house['date']}: " if self.house["date"] else ""
        self.paper.line(f"{label}{self.dated(self.day)}  {time}", size=28)
        self.paper.pair(
            f"{self.house['number'].rstrip(':')}: {number}",
            f"{self.house['clerk']} {self.random.randint(1, 9)}",
            size=28,
        )
