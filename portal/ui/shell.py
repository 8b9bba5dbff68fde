"""What every page shares: the header, the way fragments of HTML are placed, and how events are wired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.components.navbar import Navbar
from markupsafe import Markup

from portal.ui import identity, markup, messages, words
from portal.ui.theme import TITLE
from portal.wording import as_sentence

PAGES = (("Workspace", "/"), ("History", "/history"), ("Usage", "/usage"), ("Keys", "/keys"))
ADMIN_PAGES = (("Admin", "/admin"),)  # shown to the portal's admins alone

# One button that goes round; static/tokens.css shows the name of the present choice, static/theme.js makes it work.
_THEMES = Markup(
    '<button type="button" class="themes"><span data-choice="system">Theme: as the system</span>'
    '<span data-choice="light">Theme: light</span><span data-choice="dark">Theme: dark</span></button>'
)

# Buttons inside a fragment name an action and a target; one listener on the fragment survives its redraws.
_ACTIONS_JS = """
element.addEventListener('click', async (event) => {
  const chosen = event.target.closest('[data-action]');
  if (!chosen || !element.contains(chosen)) return;
  event.preventDefault();
  const asked = { ...chosen.dataset };  // what is confirmed is what is done, whatever a redraw does meanwhile
  const answer = asked.confirm ? await portal.confirm(asked) : {};
  if (!answer) return;
  if (asked.address) history.replaceState(null, '', asked.address);
  trigger('submit', { action: asked.action, target: asked.target || '', ...answer });
});
"""


def fragment(elem_id: str, value: str = "", *, js_on_load: str = _ACTIONS_JS, **options: Any) -> gr.HTML:
    """A place for HTML built with Markup. Never give it a template: its value is inserted, not evaluated."""
    return gr.HTML(value, elem_id=elem_id, apply_default_css=False, js_on_load=js_on_load, **options)


def on(trigger: Callable[..., Any], handler: Callable[..., Any] | None, **options: Any) -> Any:
    """Wires an event the portal's way: no API endpoint, no progress overlay, no one waiting for another."""
    defaults = {"api_visibility": "private", "show_progress": "hidden", "concurrency_limit": None}
    return trigger(handler, **(defaults | options))


def lay_header(page: gr.Blocks, path: str) -> None:
    """Places the header; tenant, e-mail and sign-out arrive with the load event."""
    Navbar(visible=False)
    header = fragment("shell-header", _header(path, Markup("")))

    def load_header(request: gr.Request) -> str:
        is_admin = identity.principal_of(request).is_admin
        return _header(path, _account(request), PAGES + ADMIN_PAGES if is_admin else PAGES) + _standing(request)

    on(page.load, messages.polled(load_header), outputs=header, queue=False)


def _header(path: str, account: Markup, pages: tuple[tuple[str, str], ...] = PAGES) -> Markup:
    return Markup(
        '<header class="shell"><a class="brand" href="/"><span class="mark" aria-hidden="true"></span>{}</a>'
        '<nav aria-label="Pages of the portal">{}</nav>{}<div class="account">{}</div></header>'
        '<p class="connection">{}</p>'
    ).format(
        TITLE, markup.joined(_link(name, target, path) for name, target in pages), _THEMES, account, words.RECONNECTING
    )


def _link(name: str, target: str, path: str) -> Markup:
    current = Markup(' aria-current="page"') if target == path else Markup("")
    return Markup('<a href="{}"{}>{}</a>').format(target, current, name)


def _standing(request: gr.Request) -> Markup:
    reason = identity.principal_of(request).no_new_jobs
    if reason is None:
        return Markup("")
    said = f"The portal’s admin says: {as_sentence(reason)} " if reason else ""
    return Markup(
        '<div class="standing" role="status"><p><strong>No new work at present.</strong> {}{}</p></div>'
    ).format(said, words.NO_NEW_JOBS)


def _account(request: gr.Request) -> Markup:
    principal = identity.principal_of(request)
    return Markup(
        '<span class="who"><b id="tenant-name">{}</b><span id="member-email">{}</span></span>'
        '<a href="/members">Members</a><a href="/account">Account</a>'
        '<form method="post" action="/logout"><input type="hidden" name="csrf_token" value="{}">'
        '<button id="sign-out" class="link">Sign out</button></form>'
    ).format(principal.tenant_name, principal.email or "", identity.csrf_token_of(request))
