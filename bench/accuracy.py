"""Accuracy and speed of the embedded engine on the shared scans with known text; Tesseract beside it if installed.

Word recall: words of the truth that the output has too, over all of them (NFKC, casefold; for Chinese and Japanese
pairs of neighbouring characters within a line). CER: Levenshtein distance without white space over the truth's
length, in output order; not for pages whose truth holds key lines only. Run by `python -m bench accuracy`; `--scans`
names another folder with `truth` beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from PIL import Image

from portal.domain import PageImage, TaskPrompt
from portal.engine.embedded import EmbeddedEngine, default_workers
from portal.page_text import PageText

_SCANS = Path(__file__).resolve().parents[2] / "shared" / "cases" / "scans"
_CAPPED = ("da_1846_fraktur", "en_linn_2col", "en_linn_rot_p2", "en_linn_skew")
_KEY_LINES_ONLY = ("en_doublecol", "en_lp_tiff_p1")
_ACCENTED, _SPEED_PAGE = "syn_nordic_latin", "nl_invoice_coolblue"
_PACKS = {"da": "dan", "de": "deu", "en": "eng", "fr": "fra", "nl": "nld", "syn": "swe+deu+fra+spa", "zh": "chi_sim"}
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class Score:
    """How well one page was read. `cer` is NaN without a whole truth; `tesseract` is (recall, CER, seconds) if run."""

    name: str
    recall: float
    cer: float
    seconds: float
    confidence: float | None
    tesseract: tuple[float, float, float] | None


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables; 0 when there were scans to read."""
    parser = argparse.ArgumentParser(prog="bench accuracy", description=__doc__)
    parser.add_argument("--scans", type=Path, default=_SCANS)
    parser.add_argument("--rounds", type=int, default=2, help="passes over the scans with the machine full")
    given = parser.parse_args(argv)
    scans = sorted(path for path in given.scans.glob("*.*") if _truth_path(path).is_file())
    if not scans:
        print(f"No scans with known text in {given.scans}.")
        return 1
    with tempfile.TemporaryDirectory(prefix="bench-accuracy-") as folder:
        images = {path.stem: _as_png(path, Path(folder)) for path in scans}
        truths = {path.stem: _truth_path(path).read_text(encoding="utf-8") for path in scans}
        asyncio.run(_measure(images, truths, given.rounds))
    return 0


async def _measure(images: dict[str, PageImage], truths: dict[str, str], rounds: int) -> None:
    print(f"Load before: {os.getloadavg()[0]:.2f}; workers: {default_workers()}")
    engine = EmbeddedEngine(default_workers(), page_seconds=120)
    try:
        began = time.perf_counter()
        await engine.start()
        print(f"Start with probe: {time.perf_counter() - began:.1f} s")
        pages, seconds = await _read_alone(engine, images)
        alone = [(await _timed(engine, images[_SPEED_PAGE]))[1] for _ in range(3)] if _SPEED_PAGE in images else []
        full = await _pages_a_second(engine, list(images.values()) * rounds)
    finally:
        await engine.close()
    peak_bytes = _worker_peak_bytes()
    scores = [_score(name, page, truths[name], seconds[name], images[name]) for name, page in pages.items()]
    _print_scores(scores)
    if _ACCENTED in pages:
        kept, all_accents = accents_kept(truths[_ACCENTED], pages[_ACCENTED].text)
        print(f"Accented letters kept on {_ACCENTED}: {kept} of {all_accents}")
    if alone:
        print(f"{_SPEED_PAGE} alone: best {min(alone):.2f} s, worst {max(alone):.2f} s of {len(alone)}")
    print(f"All workers busy: {full:.2f} pages/s")
    print(f"Worker peak: {peak_bytes / 1e9:.2f} GB resident")


async def _read_alone(
    engine: EmbeddedEngine, images: dict[str, PageImage]
) -> tuple[dict[str, PageText], dict[str, float]]:
    pages, seconds = {}, {}
    for name, image in images.items():
        pages[name], seconds[name] = await _timed(engine, image)
    return pages, seconds


async def _timed(engine: EmbeddedEngine, image: PageImage) -> tuple[PageText, float]:
    began = time.perf_counter()
    page = await engine.recognise(image, TaskPrompt())
    return page, time.perf_counter() - began


async def _pages_a_second(engine: EmbeddedEngine, images: Sequence[PageImage]) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(engine.recognise(image, TaskPrompt()) for image in images))
    return len(images) / (time.perf_counter() - began)


def _worker_peak_bytes() -> int:
    """Most resident memory of any child that has ended, from the kernel. Waits for the killed ones to be gone."""
    deadline = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.1)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def word_recall(truth: str, output: str) -> float:
    """Share of the truth's words (for CJK: character pairs) that the output has, each as often as it is there."""
    wanted, found = _words(truth), _words(output)
    return sum((wanted & found).values()) / max(1, wanted.total())


def character_error_rate(truth: str, output: str) -> float:
    """Levenshtein distance over the truth's length, white space left out, in output order."""
    wanted, found = _dense(truth), _dense(output)
    return _distance(wanted, found) / max(1, len(wanted))


def accents_kept(truth: str, output: str) -> tuple[int, int]:
    """(accented letters that the output has too, all of the truth's)."""
    wanted = Counter(char for char in unicodedata.normalize("NFC", truth) if char.isalpha() and ord(char) > 127)
    return (wanted & Counter(unicodedata.normalize("NFC", output))).total(), wanted.total()


def _words(text: str) -> Counter[str]:
    text = unicodedata.normalize("NFKC", text).casefold()
    if not _CJK.search(text):
        return Counter(word for part in text.split() if (word := part.strip(".,;:!?()[]\"'")))
    rows = ("".join(row.split()) for row in text.splitlines())
    return Counter(row[at : at + 2] for row in rows for at in range(max(1, len(row) - 1)) if row)


def _dense(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())


def _distance(first: str, second: str) -> int:
    """Wagner-Fischer by rows; the insertions of a row are one running minimum."""
    codes = np.array([ord(char) for char in second], dtype=np.int64)
    steps = np.arange(len(codes) + 1)
    row = steps.copy()
    for at, char in enumerate(first, start=1):
        changed = np.minimum(row[1:] + 1, row[:-1] + (codes != ord(char)))
        row = np.minimum.accumulate(np.concatenate(([at], changed)) - steps) + steps
    return int(row[-1])


def _score(name: str, page: PageText, truth: str, seconds: float, image: PageImage) -> Score:
    return Score(
        name=name,
        recall=word_recall(truth, page.text),
        cer=_cer(name, truth, page.text),
        seconds=seconds,
        confidence=page.confidence,
        tesseract=_tesseract(name, image, truth),
    )


def _tesseract(name: str, image: PageImage, truth: str) -> tuple[float, float, float] | None:
    program = shutil.which("tesseract")
    if program is None:
        return None
    there = subprocess.run([program, "--list-langs"], capture_output=True, text=True, check=False).stdout.split()
    packs = [pack for pack in _PACKS.get(name.split("_")[0], "eng").split("+") if pack in there]
    if not packs:
        return None
    began = time.perf_counter()
    command = [program, str(image.path), "-", "-l", "+".join(packs), "--psm", "1" if "osd" in there else "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    return word_recall(truth, done.stdout), _cer(name, truth, done.stdout), seconds


def _cer(name: str, truth: str, output: str) -> float:
    return math.nan if name in _KEY_LINES_ONLY else character_error_rate(truth, output)


def _print_scores(scores: Sequence[Score]) -> None:
    has_tesseract = any(score.tesseract for score in scores)
    print(f"\n{'page':24} recall    CER  seconds  confidence" + ("   Tesseract" if has_tesseract else ""))
    for score in scores:
        confidence = "-" if score.confidence is None else f"{score.confidence:.3f}"
        beside = "" if score.tesseract is None else "   {:.3f} {:.3f} {:.2f} s".format(*score.tesseract)
        print(f"{score.name:24} {score.recall:6.3f} {score.cer:6.3f} {score.seconds:8.2f}  {confidence:>10}{beside}")
    _print_mean("mean", scores)
    _print_mean("mean without Fraktur, linn", [score for score in scores if score.name not in _CAPPED])
    if not has_tesseract:
        print("Tesseract is not installed here, so it is not beside.")


def _print_mean(title: str, scores: Sequence[Score]) -> None:
    own = _means([(score.recall, score.cer, score.seconds) for score in scores])
    beside = [score.tesseract for score in scores if score.tesseract]
    shown = f"   Tesseract {_means(beside)}" if beside else ""
    print(f"{title:26} {own}{shown}")


def _means(rows: Sequence[tuple[float, float, float]]) -> str:
    columns = [[value for value in column if not math.isnan(value)] for column in zip(*rows, strict=True)]
    recall, cer, seconds = (mean(column) if column else math.nan for column in columns)
    return f"recall {recall:.3f}, CER {cer:.3f}, {seconds:.2f} s"


def _truth_path(scan: Path) -> Path:
    return scan.parent.parent / "truth" / f"{scan.stem}.txt"


def _as_png(scan: Path, folder: Path) -> PageImage:
    with Image.open(scan) as image:
        path = folder / f"{scan.stem}.png"
        image.convert("RGB").save(path, compress_level=1)
        return PageImage(path, *image.size)


if __name__ == "__main__":
    raise SystemExit(main())
