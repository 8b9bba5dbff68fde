"""Every refusal the portal can give, each with a stable code, a kind and a remedy.

Raised anywhere, translated at three edges only: `api/problems.py`, `web/pages.py` (both by the map and the body of
`http/problems.py`) and `ui/messages.py`. HTTP numbers are unknown here. Messages are shown to people: no secret and no
path of the server goes in.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Kind = Literal[
    "invalid",
    "unauthenticated",
    "forbidden",
    "not_found",
    "conflict",
    "over_quota",
    "busy",
    "unavailable",
]


class PortalError(Exception):
    """A refusal with a remedy.

    `code` is stable and machine-readable, `message` says what happened, `remedy` what to do next,
    `retry_after_seconds` when trying again makes sense, `job_id` which job was accepted all the same. A subclass fixes
    code and kind; code and remedy may be narrowed for one instance.
    """

    code: str = "error"
    kind: ClassVar[Kind] = "invalid"
    remedy: str = "Check the request and try again."
    job_id: str | None = None

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        code: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        if remedy is not None:
            self.remedy = remedy
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders (a child raises, the portal shows), so they must pickle."""
        return _rebuild, (type(self), self.message, self.remedy, self.code, self.retry_after_seconds)


def _rebuild(
    kind: type[PortalError], message: str, remedy: str, code: str, retry_after_seconds: int | None
) -> PortalError:
    return kind(message, remedy=remedy, code=code, retry_after_seconds=retry_after_seconds)


class SettingsError(PortalError):
    """The environment does not describe a portal that can start."""

    code = "settings"


class InvalidRequest(PortalError):
    """A parameter is missing, malformed or out of range."""

    code = "invalid_request"


def _among(lowest: int, highest: int) -> str:
    return f"page {lowest} alone" if lowest == highest else f"pages {lowest} to {highest}"


class PageOutOfRange(InvalidRequest):
    """A page selection names a page that the document lacks. `page` counts from 1, the words from `first`."""

    code = "page_out_of_range"

    def __init__(self, file_name: str, *, page: int, page_count: int, first: int = 1) -> None:
        shift = first - 1
        lowest, highest = 1 + shift, page_count + shift
        super().__init__(
            f"{file_name} has {_among(lowest, highest)}; page {page + shift} cannot be read.",
            remedy=f"Choose {_among(lowest, highest)}, or leave the choice out to read all.",
        )
        self.file_name, self.page, self.page_count, self.first = file_name, page, page_count, first

    def counted_from(self, first: int) -> PageOutOfRange:
        """The same refusal in the words of a caller who counts pages from `first` (0 or 1)."""
        return PageOutOfRange(self.file_name, page=self.page, page_count=self.page_count, first=first)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_page_out_of_range, (self.file_name, self.page, self.page_count, self.first)


def _rebuild_page_out_of_range(file_name: str, page: int, page_count: int, first: int) -> PageOutOfRange:
    return PageOutOfRange(file_name, page=page, page_count=page_count, first=first)


class Unauthenticated(PortalError):
    """No proven caller."""

    code = "unauthenticated"
    kind = "unauthenticated"
    remedy = "Sign in, or send a valid API key as 'Authorization: Bearer …'."


class Forbidden(PortalError):
    """A proven caller that may not do this."""

    code = "forbidden"
    kind = "forbidden"
    remedy = "Ask the owner of your tenant or the portal's admin."


class NotFound(PortalError):
    """It does not exist, or it is another tenant's: the two are not told apart."""

    code = "not_found"
    kind = "not_found"
    remedy = "Check the id; it may have been deleted."


class Conflict(PortalError):
    """The state of the thing does not allow it."""

    code = "conflict"
    kind = "conflict"
    remedy = "Reload and look at the present state."


class TooManyAttempts(PortalError):
    """Sign-in is throttled for this account or address."""

    code = "too_many_attempts"
    kind = "over_quota"
    remedy = "Wait as long as Retry-After says, then try again."


class TooManySamples(PortalError):
    """The tenant has as many of the free samples under way as it may."""

    code = "too_many_samples"
    kind = "over_quota"
    remedy = "Wait until one is read, or read a scan of your own."


class LimitReached(PortalError):
    """A limit of the tenant does not allow it; nothing was stored, counted or charged.

    Codes: rate_limited, quota_exhausted, too_many_in_flight, and too_many_pages of `TooManyPages`. `limit` is the
    binding limit's name, `allowed` its value, `used` what counts against it now, `reset_seconds` the time until its
    count starts anew (None: it does not), `asked_pages` how many pages were asked for.
    """

    code = "quota_exhausted"
    kind: ClassVar[Kind] = "over_quota"
    asked_pages: int = 0

    def __init__(
        self,
        message: str,
        *,
        code: str,
        remedy: str,
        retry_after_seconds: int | None,
        binding: tuple[str, int, int, int | None],
    ) -> None:
        super().__init__(message, code=code, remedy=remedy, retry_after_seconds=retry_after_seconds)
        self.binding = binding
        self.limit, self.allowed, self.used, self.reset_seconds = binding

    def __reduce__(self) -> tuple[object, ...]:
        given = {
            "code": self.code,
            "remedy": self.remedy,
            "retry_after_seconds": self.retry_after_seconds,
            "binding": self.binding,
        }
        return _rebuild_limit_reached, (type(self), self.message, given)


def _rebuild_limit_reached(kind: type[LimitReached], message: str, given: dict[str, Any]) -> LimitReached:
    return kind(message, **given)


class TooManyPages(LimitReached):
    """More pages at once than the tenant may ever have in flight: waiting does not help, so no time is told."""

    code = "too_many_pages"
    kind = "invalid"


class Busy(PortalError):
    """The whole service has as much waiting work as it may hold."""

    code = "backlog_full"
    kind = "busy"
    remedy = "Try again after the time in Retry-After; nothing was stored or charged."


class Unavailable(PortalError):
    """A part that is needed (database, storage, engine) does not answer."""

    code = "unavailable"
    kind = "unavailable"
    remedy = "Try again in a minute; if it lasts, tell the operator."


class TooSlow(Unavailable):
    """A query took longer than its caller gives it, and was ended."""

    code = "query_too_slow"
    remedy = "Ask for less at once, or try again when the portal has less to do."


class StillRunning(PortalError):
    """The wait elapsed before the job ended; the job goes on."""

    code = "still_running"
    kind = "unavailable"
    remedy = "Fetch the job by its id later; it goes on without you."

    def __init__(self, message: str, *, job_id: str, retry_after_seconds: int | None = None) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.job_id = job_id

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_still_running, (self.message, self.job_id, self.retry_after_seconds)


def _rebuild_still_running(message: str, job_id: str, retry_after_seconds: int | None) -> StillRunning:
    return StillRunning(message, job_id=job_id, retry_after_seconds=retry_after_seconds)


class DocumentRefused(PortalError):
    """The uploaded file cannot be read; nothing was stored or charged.

    Codes: file_empty, file_type_unknown, file_encrypted, file_corrupt, file_too_large, too_many_pages,
    too_many_pixels, file_unreadable.
    """

    code = "file_unreadable"


class TaskUnavailable(PortalError):
    """No configured engine can do this task prompt (or this engine cannot)."""

    code = "task_unavailable"
    remedy = "Choose a task prompt and an engine that /v1/models lists together."


class EngineError(PortalError):
    """One engine call failed. `is_permanent` says that trying the same page again cannot help."""

    code = "engine_failed"
    kind = "unavailable"
    remedy = "Retry the page."

    def __init__(
        self,
        message: str,
        *,
        is_permanent: bool,
        code: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.is_permanent = is_permanent

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_engine_error, (self.message, self.is_permanent, self.code, self.remedy)


def _rebuild_engine_error(message: str, is_permanent: bool, code: str, remedy: str) -> EngineError:
    return EngineError(message, is_permanent=is_permanent, code=code, remedy=remedy)
