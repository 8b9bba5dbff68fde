"""The sample pages: drawn here, so that nobody needs a scan at hand to try the portal, and free to read.

Each is a small page of everyday paper in a language that the embedded engine reads. Their small pictures lie in
static/samples; `python -m portal.ui.samples static/samples` draws those anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from portal.errors import InvalidRequest
from portal.ui.samples import east_asian, european, layouts
from portal.ui.samples.paper import Paper


@dataclass(frozen=True)
class Sample:
    """One sample: how it is named in files and addresses, to people, and the language (BCP 47) of its text."""

    name: str
    title: str
    language_name: str
    language: str
    write: Callable[[Paper], None]

    @property
    def file_name(self) -> str:
        """The name of the document that it becomes."""
        return f"sample-{self.name}.png"

    def draw(self, target: Path) -> None:
        """Writes the page as an RGB PNG of 1000 x 1400 pixels."""
        paper = Paper()
        self.write(paper)
        paper.image.save(target, format="PNG")


SAMPLES = (
    Sample("receipt", "Receipt", "English", "en", european.receipt),
    Sample("invoice", "Invoice", "German", "de", european.invoice),
    Sample("letter", "Letter", "French", "fr", european.letter),
    Sample("form", "Form", "Spanish", "es", european.form),
    Sample("notice", "Notice", "Chinese", "zh", east_asian.notice),
    Sample("schedule", "Timetable", "Japanese", "ja", east_asian.schedule),
    Sample("article", "Two columns", "English", "en", layouts.article),
    Sample("table", "Table", "Italian", "it", layouts.table),
)


def named(name: str) -> Sample:
    """The sample of that name. Raises InvalidRequest."""
    found = next((sample for sample in SAMPLES if sample.name == name), None)
    if found is None:
        raise InvalidRequest("That sample does not exist.", remedy="Reload the page and choose one that is shown.")
    return found
