"""What a profile says of a checkpoint: how it wants to be spoken to, what it answers, how it is served and licensed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from portal.domain import Mode, Task
from portal.languages import NAMES

LICENCE_SETTING: Final = "PORTAL_ACCEPT_LICENCES"


class AnswerForm(StrEnum):
    """What an answer is written in: Markdown (perhaps with HTML tables), plain text, or lines with boxes.

    SPOTTING is `text(x1,y1),(x2,y2)`, SPOTTING_JSON a list of `{"box": [x1, y1, x2, y2], "text": …}`; both count
    0–1000 over the page.
    """

    MARKDOWN = "markdown"
    TEXT = "text"
    SPOTTING = "spotting"
    SPOTTING_JSON = "spotting_json"


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that the checkpoint can be asked with an image. `text` is None for one that takes no prompt."""

    text: str | None
    answer: AnswerForm = AnswerForm.MARKDOWN


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters as vLLM's chat API names them; those left None are not sent."""

    temperature: float
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None

    def parameters(self) -> dict[str, Any]:
        """As keys of a request's body."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ImageRule:
    """How large a page's image is sent, and as what. Smaller pages are enlarged only where `enlarges`.

    `taken_pixels` bounds an image that is passed on as it came (portal/door): more than `max_pixels` only where the
    server's own processor shrinks it before the checkpoint sees it.
    """

    longest_side_px: int
    max_pixels: int
    form: Literal["png", "jpeg"]
    enlarges: bool = False
    taken_pixels: int | None = None

    @property
    def max_taken_pixels(self) -> int:
        """The most pixels of an image that is passed on as it came."""
        return self.taken_pixels or self.max_pixels


@dataclass(frozen=True, slots=True)
class ServeFlag:
    """A flag of `vllm serve` and why it is wanted."""

    flag: str
    why: str


@dataclass(frozen=True, slots=True)
class Licence:
    """The checkpoint's licence. One with a `code` must be accepted by the operator by that code in the settings."""

    name: str
    url: str
    code: str | None = None
    limits: str = ""
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """One checkpoint family.

    `checkpoints` are lower-case parts of the model names that it stands for. `extract` maps each mode to what is asked
    for it, `translate` each target language (code) to what is asked with the image; `targets` are all languages that
    it translates to, by the image or, where `writes_to_order`, from the text. `fields` is the checkpoint's own prompt
    for fields with the place `{keys}`; one that `writes_to_order` is asked in ours. `retry_sampling` is used once after
    a loop. `prompt_tokens` bounds what image and prompt take of the context. `sources` say where each fact comes from.
    """

    name: str
    version: str
    title: str
    purpose: str
    checkpoints: tuple[str, ...]
    extract: Mapping[Mode, Ask]
    sampling: Sampling
    retry_sampling: Sampling
    image: ImageRule
    max_tokens: int
    prompt_tokens: int
    licence: Licence
    serve_flags: tuple[ServeFlag, ...]
    sources: tuple[str, ...]
    languages: tuple[str, ...] = ()
    system: str | None = None
    translate: Mapping[str, Ask] = field(default_factory=dict)
    fields: str | None = None
    writes_to_order: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes of `extract` that it knows, in the order of Mode."""
        return tuple(mode for mode in Mode if mode in self.extract)

    @property
    def targets(self) -> tuple[str, ...]:
        """The languages that it translates to, as codes."""
        return tuple(NAMES) if self.writes_to_order else tuple(sorted(self.translate))

    @property
    def tasks(self) -> frozenset[Task]:
        """What it can do by itself."""
        return frozenset({Task.EXTRACT, Task.FIELDS} | ({Task.TRANSLATE} if self.targets else set()))

    @property
    def picks_fields(self) -> bool:
        """Whether it can be asked for fields; of others they are found by labels in what they read."""
        return self.fields is not None or self.writes_to_order

    @property
    def mode_for_fields(self) -> Mode:
        """How a page is read to look its fields up: by lines with boxes, where it has them."""
        return Mode.SPOTTING if Mode.SPOTTING in self.extract else Mode.DOCUMENT
