"""Frozen values that travel between packages: who calls, what is read, what is asked of it.

No behaviour beyond what derives from the values themselves; no database, no I/O. What was found on a page is in
portal/page_text.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path


class Scope(StrEnum):
    """What an API key may do: submit work, read results, use the chat door, free prompts, manage members, operate."""

    OCR = "ocr"
    READ = "read"
    CHAT = "chat"
    PROMPT = "prompt"
    MEMBERS = "members"
    ADMIN = "admin"


class Role(StrEnum):
    """A member's standing in its tenant."""

    OWNER = "owner"
    MEMBER = "member"


class TenantState(StrEnum):
    """What a tenant may do: everything, only read and export what is there, or nothing."""

    ACTIVE = "active"
    NO_NEW_JOBS = "no_new_jobs"
    SUSPENDED = "suspended"


class Task(StrEnum):
    """What an engine is asked to do with a page."""

    EXTRACT = "extract"
    FIELDS = "fields"
    TRANSLATE = "translate"


class FieldType(StrEnum):
    """What a field's value is; `rows` are objects with fields of their own, such as the lines of an invoice."""

    TEXT = "text"
    DATE = "date"
    MONEY = "money"
    NUMBER = "number"
    ID = "id"
    IBAN = "iban"
    EMAIL = "email"
    PHONE = "phone"
    ROWS = "rows"


class Mode(StrEnum):
    """How `extract` is asked: the page as a document (Markdown), as plain text, as lines with boxes, as subtitles."""

    DOCUMENT = "document"
    TEXT = "text"
    SPOTTING = "spotting"
    SUBTITLES = "subtitles"


class JobState(StrEnum):
    """Where a job stands; the last four are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True when no page of the job will be worked on any more."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class PageState(StrEnum):
    """Where a page stands; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True when the page will not be worked on any more."""
        return self not in (PageState.QUEUED, PageState.RUNNING)


class Limit(StrEnum):
    """What a plan limits; the value is the limit's stable name in the API, the tables and the command line."""

    PAGES_PER_DAY = "pages_per_day"
    PAGES_PER_MONTH = "pages_per_month"
    REQUESTS_PER_MINUTE = "requests_per_minute"
    PAGES_IN_FLIGHT = "pages_in_flight"
    UNCHARGED_PAGES_PER_DAY = "uncharged_pages_per_day"
    MAX_FILE_BYTES = "max_file_bytes"
    MAX_DOCUMENT_PAGES = "max_document_pages"
    RETENTION_DAYS = "retention_days"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a tenant stands against one limit: `allowed` (None is no limit), `used`, and when the count starts anew.

    `resets_at` is None where nothing starts anew: what is in flight ends by itself.
    """

    limit: Limit
    allowed: int | None
    used: int
    resets_at: datetime | None = None

    @property
    def remaining(self) -> int | None:
        """What is left, never below 0; None where there is no limit."""
        return None if self.allowed is None else max(0, self.allowed - self.used)

    @property
    def used_share(self) -> float:
        """The used part, 0–1 and above; 1 where nothing is allowed, 0 where there is no limit."""
        if self.allowed is None:
            return 0.0
        return self.used / self.allowed if self.allowed else 1.0


@dataclass(frozen=True, slots=True)
class Principal:
    """A proven caller: a signed-in member or an API key. Every query on tenant data takes its tenant_id.

    `no_new_jobs` is the admin's reason why the tenant may submit nothing (may be empty), None where it may.
    """

    tenant_id: str
    tenant_name: str
    member_id: str | None
    email: str | None
    role: Role
    is_admin: bool
    scopes: frozenset[Scope]
    api_key_id: str | None = None
    address: str | None = None
    no_new_jobs: str | None = None

    @property
    def label(self) -> str:
        """Who to show in audit entries: the e-mail, else the key's id."""
        return self.email or self.api_key_id or self.tenant_name


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field that is asked for, with the rules that its value must keep.

    `allowed` values, an RE2 `pattern` for the whole value, `minimum` and `maximum` (numbers and amounts as decimal
    text, dates as ISO 8601); empty or None is no rule. `not_before` names a date field of the same document.
    `sum_of` are alternatives, each fields (or `rows.column`, summed up) joined by '+': one must add up to the value.
    `children` are the columns of a `rows` field.
    """

    name: str
    type: FieldType = FieldType.TEXT
    required: bool = False
    many: bool = False
    description: str = ""
    allowed: tuple[str, ...] = ()
    pattern: str | None = None
    minimum: str | None = None
    maximum: str | None = None
    not_before: str | None = None
    sum_of: tuple[str, ...] = ()
    children: tuple[FieldSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateRef:
    """The template that a run's fields came from, as it was at that version."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """What is asked of each page.

    The task, its mode (extract), the fields (fields) and the template that they are, the target language (translate), a
    code of portal.languages.
    """

    task: Task = Task.EXTRACT
    fields: tuple[FieldSpec, ...] = ()
    language: str | None = None
    mode: Mode = Mode.DOCUMENT
    template: TemplateRef | None = None

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields, in the order they were asked for."""
        return tuple(spec.name for spec in self.fields)


@dataclass(frozen=True, slots=True)
class PageSize:
    """Size in pixels that a page will be rendered at."""

    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the sandbox learned of an uploaded file without decoding its pixels."""

    media_type: str
    page_sizes: tuple[PageSize, ...]

    @property
    def page_count(self) -> int:
        """Number of pages (frames of a TIFF, pages of a PDF), at least 1."""
        return len(self.page_sizes)


@dataclass(frozen=True, slots=True)
class PageImage:
    """One rasterized page: an 8-bit RGB PNG made by our own sandbox, so trusted bytes.

    `dpi` is the resolution the page was rendered at when the document says (PDF), else None.
    """

    path: Path
    width_px: int
    height_px: int
    dpi: int | None = None


@dataclass(frozen=True, slots=True)
class EngineCapability:
    """What one engine can do: offered to people before anything is reserved.

    `unavailable` maps each task that it cannot do to the reason, in words for the user. `modes` are those of
    `extract`, `targets` the languages (codes) that it translates to. `purpose` says in a few words what it is good for,
    `notice` what its licence wants people to be told. An engine that `is_remote` may be away while the portal works.
    """

    name: str
    checkpoint: str
    profile_version: str
    tasks: frozenset[Task]
    languages: tuple[str, ...]
    unavailable: dict[Task, str] = field(default_factory=dict)
    modes: tuple[Mode, ...] = (Mode.DOCUMENT,)
    targets: tuple[str, ...] = ()
    purpose: str = ""
    licence: str = ""
    notice: str | None = None
    is_remote: bool = False
