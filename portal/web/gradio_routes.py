"""Which of Gradio's routes the guard lets through, and what it checks on each: an allow-list.

Read from `gradio/routes.py` of 6.31.0. A test mounts a real app and fails on a route that stands in neither
table, so that a new Gradio cannot bring a route that nobody looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto


class Check(Enum):
    """What must hold before a request reaches Gradio. All but PUBLIC need a signed-in member."""

    PUBLIC = auto()
    PAGE = auto()
    MEMBER = auto()
    SESSION_IN_PATH = auto()
    SESSION_IN_QUERY = auto()
    CALL = auto()
    UPLOAD = auto()
    UPLOAD_PROGRESS = auto()
    FILE = auto()


@dataclass(frozen=True, slots=True)
class Call:
    """The JSON body of a call: the keys Gradio's own page sends (no others pass) and those it needs."""

    keys: frozenset[str]
    needs: frozenset[str]


@dataclass(frozen=True, slots=True)
class GradioRoute:
    """One allowed route: Gradio's own template, its methods, what is checked, and the shape of its body."""

    template: str
    methods: frozenset[str]
    check: Check
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """An allowed route that a path matched, with the values of its placeholders."""

    route: GradioRoute
    values: dict[str, str]


_GET = frozenset({"GET"})
_GET_HEAD = frozenset({"GET", "HEAD"})
_POST = frozenset({"POST"})

_EVENT = Call(
    frozenset({"data", "event_data", "fn_index", "trigger_id", "session_hash"}),
    frozenset({"data", "fn_index", "session_hash"}),
)
_SERVER_FUNCTION = Call(
    frozenset({"data", "component_id", "fn_name", "session_hash"}),
    frozenset({"data", "component_id", "fn_name", "session_hash"}),
)
_CANCEL = Call(frozenset({"event_id", "fn_index", "session_hash"}), frozenset({"event_id", "fn_index", "session_hash"}))
_RESET = Call(frozenset({"event_id"}), frozenset())

# Gradio's own bundle carries nothing of any tenant; asking the database for each of its files would only be slow.
ALLOWED: tuple[GradioRoute, ...] = (
    GradioRoute("/assets/{path:path}", _GET, Check.PUBLIC),
    GradioRoute("/static/{path:path}", _GET, Check.PUBLIC),
    GradioRoute("/favicon.ico", _GET, Check.PUBLIC),
    GradioRoute("/manifest.json", _GET, Check.PUBLIC),
    GradioRoute("/robots.txt", _GET, Check.PUBLIC),
    GradioRoute("/theme.css", _GET, Check.PUBLIC),
    GradioRoute("/gradio_api/theme.css", _GET, Check.PUBLIC),
    GradioRoute("/", _GET_HEAD, Check.PAGE),
    GradioRoute("/gradio_api/app_id", _GET, Check.MEMBER),
    GradioRoute("/gradio_api/heartbeat/{session_hash}", _GET, Check.SESSION_IN_PATH),
    GradioRoute("/gradio_api/queue/data", _GET, Check.SESSION_IN_QUERY),
    GradioRoute("/gradio_api/queue/join", _POST, Check.CALL, _EVENT),
    GradioRoute("/gradio_api/run/{api_name}", _POST, Check.CALL, _EVENT),
    GradioRoute("/gradio_api/component_server", _POST, Check.CALL, _SERVER_FUNCTION),
    GradioRoute("/gradio_api/component_server/", _POST, Check.CALL, _SERVER_FUNCTION),
    GradioRoute("/gradio_api/cancel", _POST, Check.CALL, _CANCEL),
    GradioRoute("/gradio_api/reset", _POST, Check.CALL, _RESET),
    GradioRoute("/gradio_api/upload", _POST, Check.UPLOAD),
    GradioRoute("/gradio_api/upload_progress", _GET, Check.UPLOAD_PROGRESS),
    GradioRoute("/gradio_api/file={path_or_url:path}", _GET_HEAD, Check.FILE),
)

# Known and refused: the portal's pages need none of them.
DENIED: frozenset[str] = frozenset(
    {
        # Sign-in and sign-out are the portal's own; GET /logout must not sign anybody out.
        "/login",
        "/login/",
        "/logout",
        "/gradio_api/user",
        "/gradio_api/user/",
        "/gradio_api/login_check",
        "/gradio_api/login_check/",
        "/gradio_api/token",
        "/gradio_api/token/",
        "/gradio_api/app_id/",
        # Other ways to call events, for programs: they have /v1.
        "/gradio_api/api/{api_name}",
        "/gradio_api/api/{api_name}/",
        "/gradio_api/run/{api_name}/",
        "/gradio_api/call/{api_name}",
        "/gradio_api/call/{api_name}/",
        "/gradio_api/call/{api_name}/{event_id}",
        "/gradio_api/call/v2/{api_name}",
        "/gradio_api/call/v2/{api_name}/",
        "/gradio_api/call/v2/{api_name}/{event_id}",
        "/gradio_api/reset/",
        "/gradio_api/queue/status",
        "/gradio_api/startup-events",
        # Descriptions of all events and components; the page carries what it needs.
        "/config",
        "/config/",
        "/gradio_api/info",
        "/gradio_api/info/",
        "/gradio_api/openapi.json",
        "/openapi.json",
        # Fetch or serve what is not the caller's own upload.
        "/gradio_api/file/{path:path}",
        "/gradio_api/proxy={url_path:path}",
        "/gradio_api/deep_link",
        "/gradio_api/custom_component/{id}/{environment}/{type}/{file_name}",
        "/svelte/{path:path}",
        "/pwa_icon",
        "/pwa_icon/{size}",
        # Audio and video streams, screen recording.
        "/gradio_api/stream/{event_id}",
        "/gradio_api/stream/{event_id}/close",
        "/gradio_api/stream/{session_hash}/{run}/{component_id}/playlist.m3u8",
        "/gradio_api/stream/{session_hash}/{run}/{component_id}/{segment_id}.{ext}",
        "/gradio_api/stream/{session_hash}/{run}/{component_id}/playlist-file",
        "/gradio_api/process_recording",
        # Run history, monitoring, development.
        "/gradio_api/runs",
        "/gradio_api/runs/",
        "/gradio_api/run-history/connect",
        "/gradio_api/run-history/buckets",
        "/gradio_api/run-history/records",
        "/gradio_api/run-history/records/{endpoint}/{record_id}/assets/{asset_id}",
        "/monitoring",
        "/monitoring/summary",
        "/monitoring/{key}",
        "/gradio_api/dev/reload",
        "/gradio_api/vibe-edit",
        "/gradio_api/vibe-edit/",
        "/gradio_api/undo-vibe-edit",
        "/gradio_api/undo-vibe-edit/",
        "/gradio_api/vibe-code",
        "/gradio_api/vibe-code/",
        "/gradio_api/vibe-starter-queries",
        "/gradio_api/vibe-starter-queries/",
        "/gradio_api/profiling/traces",
        "/gradio_api/profiling/summary",
        "/gradio_api/profiling/clear",
    }
)

# Narrower than Gradio's own patterns: no empty, dotted or percent-encoded segment can match.
_VALUES = {
    "{path:path}": r"(?P<path>[A-Za-z0-9_@-][A-Za-z0-9_.@-]*(?:/[A-Za-z0-9_@-][A-Za-z0-9_.@-]*)*)",
    "{path_or_url:path}": r"(?P<path_or_url>/[^\x00-\x1f]+)",
    "{session_hash}": r"(?P<session_hash>[A-Za-z0-9_-]{1,64})",
    "{api_name}": r"(?P<api_name>[A-Za-z0-9_-]{1,128})",
}
_PLACEHOLDER = re.compile(r"\{[a-z_:]+\}")
SESSION_HASH = re.compile(r"[A-Za-z0-9_-]{1,64}")


class AllowedRoutes:
    """The allow-list for one Gradio app, whose page names ('history') it is given."""

    def __init__(self, pages: Iterable[str]) -> None:
        """`pages` are the names in `Blocks.pages`, the first page's empty name left out or not."""
        named = [page for page in pages if page]
        routes = [*ALLOWED, *(GradioRoute(f"/{page}", _GET, Check.PAGE) for page in named)]
        routes += [GradioRoute(f"/{page}/", _GET, Check.PAGE) for page in named]
        self._exact = {route.template: route for route in routes if "{" not in route.template}
        self._patterns = [(_pattern(route.template), route) for route in routes if "{" in route.template]

    def match(self, method: str, path: str) -> Match | None:
        """The allowed route of this method and decoded path, None when there is none."""
        route = self._exact.get(path)
        if route is not None:
            return Match(route, {}) if method in route.methods else None
        for pattern, route in self._patterns:
            found = pattern.fullmatch(path)
            if found and method in route.methods:
                return Match(route, found.groupdict())
        return None

    def is_page(self, path: str) -> bool:
        """True when the path is one of the app's pages."""
        route = self._exact.get(path)
        return route is not None and route.check is Check.PAGE


def _pattern(template: str) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(template)
    values = [_VALUES[name] for name in _PLACEHOLDER.findall(template)]
    pattern = re.escape(parts[0])
    for value, rest in zip(values, parts[1:], strict=True):
        pattern += value + re.escape(rest)
    return re.compile(pattern)
