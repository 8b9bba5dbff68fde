"""The Keys page: create an API key (shown once), list the tenant's keys, replace one, revoke one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import gradio as gr
from markupsafe import Markup

from portal.accounts import api_keys
from portal.accounts.api_keys import ApiKeyView
from portal.accounts.rotation import Overlap, rotate
from portal.domain import Principal, Scope
from portal.errors import InvalidRequest, PortalError
from portal.services import Services
from portal.ui import identity, markup, messages, shell, usage_words, words
from portal.usage.reports import key_use
from portal.usage.standing import standing_of

Use = Mapping[str, tuple[int, int]]  # key → pages charged today, this month

_EXPIRIES = {"In 30 days": 30, "In 90 days": 90, "In a year": 365, "Never": None}
_DEFAULT_EXPIRY = "In 90 days"
_LABELS = {"active": "Active", "replaced": "Being replaced", "expired": "Expired", "revoked": "Revoked"}
_USABLE = ("active", "replaced")
_OVERLAPS = "|".join(
    (
        f"{Overlap.DAY}=in 1 day",
        f"{Overlap.HOUR}=in 1 hour",
        f"{Overlap.WEEK}=in 7 days",
        f"{Overlap.NONE}=at once",
    )
)


class KeysPage:
    """Lays the page out and answers its events."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def lay(self, page: gr.Blocks) -> None:
        """Places the form, the new key and the list, and wires them; called inside the page's Blocks context."""
        shell.fragment(
            "keys-head",
            Markup(
                '<div class="lead"><h1>API keys</h1><p>For scripts and other programs. '
                'What they can call is described in the <a href="/docs">API reference</a>.</p></div>'
            ),
        )
        created = shell.fragment("new-key")
        self._lay_form()
        listing = shell.fragment("key-list")
        shell.on(page.load, messages.told(self._list), outputs=listing)
        form = [self._name, self._scopes, self._expiry]
        for trigger in (self._create.click, self._name.submit):
            shell.on(trigger, messages.told(self._create_key), inputs=form, outputs=[created, listing, self._name])
        shell.on(created.submit, messages.told(self._hide), outputs=created)
        shell.on(listing.submit, messages.told(self._act), outputs=[created, listing])

    def _lay_form(self) -> None:
        with gr.Row(elem_id="key-form"):
            self._name = gr.Textbox(
                label="Name", placeholder="what it is for, like: invoice importer", max_lines=1, elem_id="key-name"
            )
            self._scopes = gr.CheckboxGroup(
                choices=[(label, scope.value) for scope, label in words.SCOPES.items()],
                value=[Scope.OCR.value, Scope.READ.value],
                label="May",
                elem_id="key-scopes",
            )
            self._expiry = gr.Dropdown(
                choices=list(_EXPIRIES), value=_DEFAULT_EXPIRY, label="Expires", filterable=False, elem_id="key-expiry"
            )
            self._create = gr.Button("Create key", variant="primary", elem_id="create-key")

    def _list(self, request: gr.Request) -> str:
        principal = identity.principal_of(request)
        with self._services.database.reading() as session:
            keys = api_keys.list_keys(session, principal.tenant_id)
            period = standing_of(session, principal.tenant_id).period
            use = key_use(session, principal.tenant_id, day=period.day, month=period.month)
        return listing(keys, datetime.now(UTC), principal, use)

    def _create_key(
        self, name: str, scopes: Sequence[str], expiry: str, request: gr.Request
    ) -> tuple[Markup, str, str]:
        principal = identity.principal_of(request)
        chosen = frozenset(Scope(scope) for scope in scopes if scope in words.SCOPES)
        if not chosen:
            raise InvalidRequest("The key may do nothing.", remedy="Tick at least one thing that it may do.")
        with self._services.database.transaction() as session:
            created = api_keys.create(
                session,
                self._services.peppers,
                principal,
                name=name.strip(),
                scopes=chosen,
                expires_at=_expires_at(expiry, datetime.now(UTC)),
            )
        shown = new_key(created.view, created.key, identity.base_url_of(request, self._services.settings))
        return shown, self._listed_or_kept(request), ""

    def _act(self, event: gr.EventData, request: gr.Request) -> tuple[Any, Any]:
        key_id = str(event._data.get("target"))
        match event._data.get("action"):
            case "rotate":
                shown: Any = self._rotate(key_id, str(event._data.get("choice")), request)
            case "revoke":
                with self._services.database.transaction() as session:
                    api_keys.revoke(session, identity.principal_of(request), key_id)
                shown = gr.skip()
            case _:
                raise InvalidRequest("There is no such action.", remedy="Reload the page.")
        return shown, self._listed_or_kept(request)

    def _listed_or_kept(self, request: gr.Request) -> Any:
        """The list, or the one on the page where it fails: the only showing of a new key must not fail with it."""
        try:
            return self._list(request)
        except PortalError:
            return gr.skip()

    def _rotate(self, key_id: str, choice: str, request: gr.Request) -> Markup:
        if choice not in tuple(Overlap):
            raise InvalidRequest("That time does not exist.", remedy="Choose one of the list.")
        principal = identity.principal_of(request)
        with self._services.database.transaction() as session:
            created = rotate(session, self._services.peppers, principal, key_id, overlap=Overlap(choice))
        return new_key(created.view, created.key, identity.base_url_of(request, self._services.settings))

    def _hide(self) -> str:
        return ""


def new_key(view: ApiKeyView, key: str, base_url: str) -> Markup:
    """The panel that shows a new key the only time, with a command that runs as printed."""
    purpose, command = _command(view, key, base_url)
    return Markup(
        '<section class="new-key" role="status"><h2>{}</h2><p>Copy the key now: it is not shown again.</p>'
        '<div class="secret"><code id="key-value">{}</code>{}</div>'
        "<p>{}</p>"
        '<div class="secret"><code id="key-curl">{}</code>{}</div>'
        '<button type="button" class="button" id="key-saved" data-action="hide">I saved it</button></section>'
    ).format(
        view.name,
        key,
        markup.copy_button("key-value", "Copy key"),
        purpose,
        command,
        markup.copy_button("key-curl", "Copy command"),
    )


def _command(view: ApiKeyView, key: str, base_url: str) -> tuple[str, str]:
    """What a curl line with this key does, and the line: one that the key's scopes allow."""
    call = f'curl -H "Authorization: Bearer {key}"'
    if Scope.OCR in view.scopes:
        return "Read a scan with it:", f'{call} -F files=@scan.png "{base_url}/v1/jobs?wait=60"'
    if Scope.READ in view.scopes:
        return "List your jobs with it:", f'{call} "{base_url}/v1/jobs"'
    if Scope.CHAT in view.scopes:
        return "List the models that it may ask:", f'{call} "{base_url}/v1/models"'
    return "See what it is:", f'{call} "{base_url}/v1/me"'


def listing(keys: Sequence[ApiKeyView], now: datetime, who: Principal, use: Use) -> Markup:
    """The tenant's keys, usable ones first, each with what `who` may do with it and the pages it was charged."""
    if not keys:
        return markup.empty("No keys yet", "Create one to call the portal from a script.")
    ordered = _ordered(keys, now)
    replaced = {key.replaced_by: key for key in keys if key.replaced_by and _state(key, now) == "replaced"}
    return Markup('<section class="group"><h2>Keys of {}</h2><ul class="entries">{}</ul></section>').format(
        who.tenant_name,
        markup.joined(_row(key, replaced.get(key.id), now, who, use.get(key.id, (0, 0))) for key in ordered),
    )


def _ordered(keys: Sequence[ApiKeyView], now: datetime) -> list[ApiKeyView]:
    """Usable keys first, one that is being replaced right after its replacement."""
    places = {key.id: float(place) for place, key in enumerate(keys)}

    def place(key: ApiKeyView) -> tuple[bool, float]:
        is_replaced = _state(key, now) == "replaced"
        own = places.get(key.replaced_by or "", places[key.id]) + 0.5 if is_replaced else places[key.id]
        return _state(key, now) not in _USABLE, own

    return sorted(keys, key=place)


def _row(key: ApiKeyView, replaces: ApiKeyView | None, now: datetime, who: Principal, used: tuple[int, int]) -> Markup:
    state = _state(key, now)
    return Markup(
        '<li class="entry key-entry" data-key="{}"><div class="entry-main"><b class="entry-title">{}</b>'
        '<p class="entry-facts"><code>{}…</code> · {} · created {}</p>'
        '<p class="entry-facts key-use">{} charged today, {} this month</p></div>'
        '<div class="entry-owner"><small>Owner</small><span>{}</span></div>'
        '<div class="entry-state">{}<small>{}</small></div><div class="entry-actions">{}</div></li>'
    ).format(
        key.id,
        key.name,
        key.prefix,
        ", ".join(words.SCOPES.get(scope, scope.value) for scope in key.scopes),
        markup.moment(key.created_at, now),
        usage_words.pages(used[0]),
        usage_words.number(used[1]),
        _owner(key, who),
        markup.badge(state, _LABELS[state]),
        _use(key, replaces, now),
        _buttons(key, state, now) if api_keys.may_end(who, key.member_id) else "",
    )


def _owner(key: ApiKeyView, who: Principal) -> str:
    if key.member_id is not None and key.member_id == who.member_id:
        return "you"
    return key.created_by or "the operator"


def _state(key: ApiKeyView, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= now:
        return "expired"
    return "replaced" if key.replaced_by else "active"


def _use(key: ApiKeyView, replaces: ApiKeyView | None, now: datetime) -> Markup:
    expiry = "no expiry" if key.expires_at is None else f"expires {key.expires_at:%Y-%m-%d}"
    if key.replaced_by and key.expires_at is not None:
        expiry = f"ends {key.expires_at:%Y-%m-%d %H:%M} UTC"
    if replaces is not None:
        expiry = f"{expiry} · takes the place of {replaces.prefix}…"
    return Markup("{} · {}").format(_last_used(key, now), expiry)


def _last_used(key: ApiKeyView, now: datetime) -> Markup:
    if key.last_used_at is None:
        return Markup("never used")
    place = f" from {key.last_used_address}" if key.last_used_address else ""
    return Markup("used {}{}").format(markup.moment(key.last_used_at, now), place)


def _buttons(key: ApiKeyView, state: str, now: datetime) -> Markup:
    if state not in _USABLE:
        return Markup("")
    rotate_button = _rotate_button(key, now) if state == "active" else Markup("")
    return Markup("{}{}").format(rotate_button, _revoke_button(key, now))


def _rotate_button(key: ApiKeyView, now: datetime) -> Markup:
    last = _last_used(key, now).striptags()
    return Markup(
        '<button type="button" class="button" data-action="rotate" data-target="{0}" aria-label="Rotate {1}"'
        ' data-confirm="Replace {1}?" data-detail="You get a new key with the same name, scopes and length of life.'
        ' The old one was {2}: leave it valid until your programs have the new one."'
        ' data-choices="{3}" data-choices-label="The old key ends" data-yes="Make the new key" data-tone="primary"'
        ' data-no="Cancel">Rotate</button>'
    ).format(key.id, key.name, last, _OVERLAPS)


def _revoke_button(key: ApiKeyView, now: datetime) -> Markup:
    last = _last_used(key, now).striptags()
    return Markup(
        '<button type="button" class="button" data-action="revoke" data-target="{0}" aria-label="Revoke {1}"'
        ' data-confirm="Revoke {1}?" data-detail="It was {2}. Programs that use it are refused at once;'
        ' this cannot be undone."'
        ' data-yes="Revoke">Revoke</button>'
    ).format(key.id, key.name, last)


def _expires_at(expiry: str, now: datetime) -> datetime | None:
    if expiry not in _EXPIRIES:
        raise InvalidRequest("That expiry does not exist.", remedy="Choose one of the list.")
    days = _EXPIRIES[expiry]
    return None if days is None else now + timedelta(days=days)
