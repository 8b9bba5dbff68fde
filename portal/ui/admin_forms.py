"""The forms of the Admin page: how they are sent, and what came as the functions behind it take it. Times are UTC."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from portal.domain import Limit
from portal.errors import InvalidRequest
from portal.http.audit_csv import moment_of
from portal.usage.limit_edits import LimitEdit
from portal.usage.limit_values import FOLLOW_PLAN, LimitChoice, parsed

_MAX_FIELD_LENGTH = 2000

# A form names an action and a target; its fields go along. One listener on the place survives its redraws; what is
# typed does by static/admin_forms.js.
FORMS_JS = """
element.addEventListener('submit', (event) => {
  const form = event.target.closest('form[data-action]');
  if (!form) return;
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(form, event.submitter));
  trigger('submit', { action: form.dataset.action, target: form.dataset.target || '', fields });
});
element.addEventListener('click', (event) => {
  if (event.target.closest('[data-action=dismiss]')) trigger('submit', { action: 'dismiss' });
});
import(portal.files + 'admin_forms.js').then((forms) => forms.mount(element));
new MutationObserver(() => {
  const heading = element.querySelector('[data-focus]');
  if (!heading || (heading === element.shown && heading.textContent === element.said)) return;
  Object.assign(element, { shown: heading, said: heading.textContent });
  heading.focus();
}).observe(element, { childList: true, subtree: true, characterData: true });
"""


@dataclass(frozen=True)
class Sent:
    """One form as it was sent: what is to be done, to whom, and its fields; text from outside."""

    action: str
    target: str
    fields: Mapping[str, str]

    @classmethod
    def of(cls, event: object) -> Sent:
        """From an event's data, whatever came in it."""
        given = event if isinstance(event, Mapping) else {}
        fields = given.get("fields")
        written = fields if isinstance(fields, Mapping) else {}
        kept = {str(name): str(value)[:_MAX_FIELD_LENGTH] for name, value in written.items()}
        return cls(str(given.get("action")), str(given.get("target") or ""), kept)

    def text(self, name: str) -> str:
        """A field without the spaces around; empty where it is missing."""
        return self.fields.get(name, "").strip()

    def limits(self) -> dict[Limit, LimitChoice]:
        """The limits that were filled in. Raises InvalidRequest (limit_invalid)."""
        return {limit: parsed(limit, self.text(limit.value)) for limit in Limit if self.text(limit.value)}

    def plain_limits(self) -> dict[Limit, float | None]:
        """The same where there is no plan to follow. Raises InvalidRequest (limit_invalid)."""
        found: dict[Limit, float | None] = {}
        for limit, choice in self.limits().items():
            if choice == FOLLOW_PLAN:
                raise InvalidRequest("A plan's limit cannot follow a plan.", remedy="Write a number, or none.")
            found[limit] = choice
        return found

    def edit(self) -> LimitEdit:
        """The change of a tenant's terms. Raises InvalidRequest."""
        return LimitEdit(
            limits=self.limits(),
            plan=self.text("plan") or None,
            time_zone=self.text("time_zone") or None,
            reason=self.text("reason") or None,
            until=moment_of(self.text("until")),
        )


def done_mark(sent: Sent) -> Markup:
    """Says to the page that a form was taken, and which; each time another."""
    written_in = "preview" if sent.action == "change" else sent.action  # a change is confirmed in a form of its own
    return Markup('<span hidden data-done="{}" data-form="{}" data-target="{}"></span>').format(
        secrets.token_hex(4), written_in, sent.target
    )
