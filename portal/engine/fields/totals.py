"""What the formulas of `sum_of` come to on one document, each column added up once however often it is named. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from portal.engine.fields.values import number
from portal.page_text import FieldValue

Fields = Mapping[str, Sequence[FieldValue]]
Total = tuple[Decimal, int]


class Totals:
    """The sums of one document's fields (or of one row's), kept: (the sum, how many numbers it has)."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self._of_parts: dict[str, Total | None] = {}
        self._of_formulas: dict[tuple[str, ...], list[Total]] = {}

    def of(self, formulas: tuple[str, ...]) -> list[Total]:
        """The sums of those formulas all of whose parts were found."""
        if formulas not in self._of_formulas:
            added = map(self._added, formulas)
            self._of_formulas[formulas] = [one for one in added if one is not None]
        return self._of_formulas[formulas]

    def _added(self, formula: str) -> Total | None:
        total, terms = Decimal(0), 0
        for part in formula.split("+"):
            found = self._of_part(part.strip())
            if found is None:
                return None
            total += found[0]
            terms += found[1]
        return total, terms

    def _of_part(self, reference: str) -> Total | None:
        if reference not in self._of_parts:
            numbers = self._numbers(reference)
            known = [one for one in numbers if one is not None]
            self._of_parts[reference] = (sum(known, Decimal(0)), len(known)) if len(known) == len(numbers) > 0 else None
        return self._of_parts[reference]

    def _numbers(self, reference: str) -> list[Decimal | None]:
        if reference in self.fields:
            return [number(value.value) for value in self.fields[reference]]
        name = next((name for name in self.fields if reference.startswith(f"{name}.")), "")
        rows = (row for value in self.fields.get(name, ()) for row in value.rows)
        return [number(cell.value) for row in rows for cell in row if f"{name}.{cell.name}" == reference]
