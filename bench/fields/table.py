"""`python -m bench fields [--split test|train|all] [--pages FOLDER]`: draws, reads and matches, then prints the tables.

Precision: of the values returned those that are right; recall: of the true values those returned right. Every field is
asked of every page, so a value that the page does not have counts against precision. Time: the matcher alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from statistics import median

from PIL import Image

from bench.fields.pages import SPLITS, pages
from portal.domain import FieldType, PageImage, TaskPrompt
from portal.engine.embedded import EmbeddedEngine, default_workers
from portal.engine.fields.matcher import from_page
from portal.engine.fields.specs import specs_from_names
from portal.page_text import FieldValue, PageText
from portal.results.serial import page_text_from_json, page_text_to_json

FIELDS = (
    *("date", "due_date", "invoice_number", "customer_number", "net", "tax", "total"),
    *("iban", "email", "phone"),
)
_SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases" / "scans"
_SHARED_TRUTH: dict[str, dict[str, str]] = {
    "de_apotheke": {"date": "2020-04-23", "total": "19.90", "invoice_number": "1505289010"},
    "en_qr_bill": {"date": "2020-07-01", "total": "3949.75", "invoice_number": "3139"},
    "nl_invoice_coolblue": {"date": "2014-04-19", "total": "717.97", "invoice_number": "993548900"},
    "zh_icbc_receipt": {"date": "2012-10-23", "invoice_number": "000016"},
}


@dataclass
class Tally:
    """Counts of one row: true values, values returned, returned right; the matcher's times and the mistakes."""

    wanted: int = 0
    returned: int = 0
    right: int = 0
    seconds: list[float] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Right of returned; 1 where nothing was."""
        return self.right / self.returned if self.returned else 1.0

    @property
    def recall(self) -> float:
        """Right of wanted; 1 where nothing was."""
        return self.right / self.wanted if self.wanted else 1.0


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table for each half and the shared scans' values; 0 when the figures of the test half hold."""
    parser = argparse.ArgumentParser(prog="bench fields", description=__doc__)
    parser.add_argument("--split", choices=(*SPLITS, "all"), default="test")
    parser.add_argument("--kept", type=Path, help="folder in which readings are kept between runs")
    parser.add_argument("--mistakes", action="store_true", help="print every wrong or missing value")
    given = parser.parse_args(argv)
    print(f"Load before: {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory(prefix="bench-fields-") as scratch:
        folder = given.kept or Path(scratch)
        chosen = SPLITS if given.split == "all" else (given.split,)
        holds = [_half(split, folder, show_mistakes=given.mistakes) for split in chosen]
        _shared(folder)
    return 0 if all(holds) else 1


def _half(split: str, folder: Path, *, show_mistakes: bool) -> bool:
    drawn = list(pages(split))
    truths: dict[str, dict[str, str]] = {}
    for page in drawn:
        truths[page.name] = page.draw(folder / f"{page.name}.png")
    read = asyncio.run(_read([folder / f"{page.name}.png" for page in drawn], folder))
    tallies: dict[str, Tally] = {}
    by_field: dict[str, Tally] = {}
    for page in drawn:
        _count(page.name, read[page.name], truths[page.name], [tallies.setdefault(page.language, Tally())], by_field)
    print(f"\nGenerated receipts and invoices, the {split} half: {len(drawn)} pages")
    _print(tallies)
    _print(by_field)
    if show_mistakes:
        print("\n".join(mistake for tally in tallies.values() for mistake in tally.mistakes))
    whole = _sum(tallies.values())
    return whole.precision >= 0.95 and whole.recall >= 0.80


def _shared(folder: Path) -> None:
    scans = [path for path in sorted(_SHARED.glob("*.*")) if path.stem in _SHARED_TRUTH]
    if not scans:
        return
    read = asyncio.run(_read(scans, folder))
    print("\nShared receipts and invoices")
    for name, page in read.items():
        found = {value.name: value for value in from_page(page, specs_from_names(_SHARED_TRUTH[name]))}
        shown = ", ".join(
            f"{field} {found[field].value} {'ok' if _is_right(found[field], true) else f'WRONG, it is {true}'}"
            for field, true in _SHARED_TRUTH[name].items()
        )
        print(f"{name:22} {shown}")


async def _read(images: Sequence[Path], folder: Path) -> dict[str, PageText]:
    """The pages' texts by the file's stem; those kept in the folder are not read again."""
    missing = [path for path in images if not (folder / f"{path.stem}.json").is_file()]
    if missing:
        engine = EmbeddedEngine(default_workers(), page_seconds=120)
        try:
            await asyncio.gather(*(_read_one(engine, path, folder) for path in missing))
        finally:
            await engine.close()
    stored = {path.stem: json.loads((folder / f"{path.stem}.json").read_text(encoding="utf-8")) for path in images}
    return {name: page_text_from_json(text) for name, text in stored.items()}


async def _read_one(engine: EmbeddedEngine, path: Path, folder: Path) -> None:
    plain = folder / f"{path.stem}.read.png"
    with Image.open(path) as image:
        image.convert("RGB").save(plain, compress_level=1)
        size = image.size
    text = await engine.recognise(PageImage(plain, *size), TaskPrompt())
    (folder / f"{path.stem}.json").write_text(json.dumps(page_text_to_json(text)), encoding="utf-8")
    plain.unlink()


def _count(name: str, page: PageText, truth: dict[str, str], rows: list[Tally], by_field: dict[str, Tally]) -> None:
    specs = specs_from_names(FIELDS)
    began = time.perf_counter()
    values = from_page(page, specs)
    rows[0].seconds.append(time.perf_counter() - began)
    for value in values:
        true = truth.get(value.name)
        for tally in (*rows, by_field.setdefault(value.name, Tally())):
            tally.wanted += true is not None
            tally.returned += value.value is not None
            tally.right += _is_right(value, true)
        if (value.value is not None and not _is_right(value, true)) or (value.value is None and true is not None):
            rows[0].mistakes.append(f"{name} {value.name}: {value.value} ({value.how}), it is {true}")


def _is_right(value: FieldValue, true: str | None) -> bool:
    if value.value is None or true is None:
        return False
    if next(iter(specs_from_names([value.name]))).type is FieldType.MONEY:
        return Decimal(value.value) == Decimal(true)
    return value.value.replace(" ", "") == true.replace(" ", "")


def _sum(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.wanted += tally.wanted
        whole.returned += tally.returned
        whole.right += tally.right
        whole.seconds += tally.seconds
    return whole


def _print(tallies: dict[str, Tally]) -> None:
    print(f"\n{'':16} precision  recall  right/returned/wanted  ms a page: median, worst")
    for name, tally in [*tallies.items(), ("all", _sum(tallies.values()))]:
        times = [1000 * seconds for seconds in tally.seconds]
        shown = f"{median(times):6.1f} {max(times):6.1f}" if times else ""
        counts = f"{tally.right}/{tally.returned}/{tally.wanted}"
        print(f"{name:16} {tally.precision:9.3f} {tally.recall:7.3f}  {counts:>21}  {shown}")
