"""The browser workspace: pages drawn with Gradio, over the same functions that the REST API calls."""

from __future__ import annotations

import gradio as gr

from portal.services import Services
from portal.ui import shell
from portal.ui.admin import AdminPage
from portal.ui.history import HistoryPage
from portal.ui.keys import KeysPage
from portal.ui.quota_line import QuotaLine
from portal.ui.theme import TITLE, early_head, mount_options
from portal.ui.usage import UsagePage
from portal.ui.workspace import WorkspacePage

__all__ = ["build", "early_head", "mount_options", "titles"]

_UPLOAD_SWEEP_SECONDS = 3600
_UPLOAD_LIFE_SECONDS = 6 * 3600
_EVENTS_AT_ONCE = 32
_MAX_WAITING_EVENTS = 1000


def build(services: Services) -> gr.Blocks:
    """All pages as one Blocks, to be mounted at / with `mount_options()` inside the guard of portal/web.

    Upload copies in Gradio's own folder are swept after six hours: jobs have their own copies by then.
    """
    demo = gr.Blocks(
        title=TITLE,
        fill_width=True,
        analytics_enabled=False,
        delete_cache=(_UPLOAD_SWEEP_SECONDS, _UPLOAD_LIFE_SECONDS),
    )
    with demo:
        shell.lay_header(demo, "/")
        QuotaLine(services).lay(demo)
        WorkspacePage(services).lay(demo)
    with demo.route("History", "/history"):
        shell.lay_header(demo, "/history")
        QuotaLine(services).lay(demo)
        HistoryPage(services).lay(demo)
    with demo.route("Usage", "/usage"):
        shell.lay_header(demo, "/usage")
        QuotaLine(services).lay(demo)
        UsagePage(services).lay(demo)
    with demo.route("Keys", "/keys"):
        shell.lay_header(demo, "/keys")
        QuotaLine(services).lay(demo)
        KeysPage(services).lay(demo)
    with demo.route("Admin", "/admin"):
        shell.lay_header(demo, "/admin")
        AdminPage(services).lay(demo)
    demo.queue(api_open=False, max_size=_MAX_WAITING_EVENTS, default_concurrency_limit=_EVENTS_AT_ONCE)
    return demo


def titles() -> dict[str, str]:
    """Path → the title of the page there; static/ui.js makes it more exact where a job is shown."""
    return {path: f"{name} · {TITLE}" for name, path in shell.PAGES}
