"""Forms of the portal's own pages: bounded bodies, CSRF, where to go next, and errors beside their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from portal.accounts import csrf
from portal.errors import Forbidden, InvalidRequest, PortalError
from portal.http.bodies import RequestTooLarge
from portal.http.problems import retry_after_seconds, status_of
from portal.services import Services
from portal.web.browsers import FORM_COOKIE, keep_form_cookie
from portal.web.origin import check_origin
from portal.web.refusals import UnsupportedMediaType
from portal.web.rendering import render

CSRF_FIELD = "csrf_token"
WHOLE_FORM = "form"
_MAX_FORM_BYTES = 16 * 1024
_MAX_FIELDS = 20
_MAX_NEXT_LENGTH = 2000
_OWN_PAGES = ("/login", "/logout", "/signup", "/invite")


class FormExpired(Forbidden):
    """The form's token does not go with the browser's cookie."""

    code = "form_expired"
    remedy = "Send the form again. If this comes back, allow cookies for this site."


@dataclass(frozen=True)
class FormState:
    """What a form shows: typed values (never a password), and errors by field, WHOLE_FORM for the rest."""

    values: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, PortalError] = field(default_factory=dict)

    @property
    def first_error(self) -> PortalError | None:
        """The error that decides the status."""
        return next(iter(self.errors.values()), None)


async def posted_fields(request: Request) -> dict[str, str]:
    """The fields of a posted form. Raises RequestTooLarge, UnsupportedMediaType and InvalidRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise UnsupportedMediaType("This page takes a form as browsers send it.", remedy="Use the page's own form.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_BYTES:
            raise RequestTooLarge("The form is too long.", remedy="Shorten what you typed.")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise InvalidRequest("The form cannot be read.", remedy="Use the page's own form.") from error
    return dict(pairs)


PostedFields = Annotated[dict[str, str], Depends(posted_fields)]


def typed(fields: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """What was typed into `names`, empty where a field is missing."""
    return {name: fields.get(name, "") for name in names}


def local_path(target: str) -> str:
    """`target` if it is a path of this portal to go to after signing in, else "/".

    Browsers read two slashes, a slash and a backslash, and a path with tabs in it as other sites.
    """
    is_local = target.startswith("/") and not target.startswith("//") and "\\" not in target
    if not is_local or not target.isprintable() or len(target) > _MAX_NEXT_LENGTH:
        return "/"
    return "/" if target.partition("?")[0] in _OWN_PAGES else target


def check_anonymous_form(request: Request, services: Services, fields: Mapping[str, str]) -> None:
    """Raises FormExpired unless the form was made for this browser, and ForeignOrigin for another site's."""
    _check_origin(request, services)
    cookie = request.cookies.get(FORM_COOKIE, "")
    expected = csrf.anonymous_token(services.peppers, cookie)
    if not cookie or not csrf.is_valid(fields.get(CSRF_FIELD), expected):
        raise FormExpired("This form was open for too long, or cookies are off.")


def check_member_form(request: Request, services: Services, fields: Mapping[str, str], expected: str) -> None:
    """Raises FormExpired unless the form carries the session's token, and ForeignOrigin for another site's."""
    _check_origin(request, services)
    if not csrf.is_valid(fields.get(CSRF_FIELD), expected):
        raise FormExpired("This form belongs to an earlier sign-in.", remedy="Reload the page and try again.")


def anonymous_page(
    request: Request, services: Services, template: str, form: FormState, **context: Any
) -> HTMLResponse:
    """A page with a form for strangers; its token is tied to a cookie of this browser."""
    cookie = request.cookies.get(FORM_COOKIE) or csrf.new_cookie()
    token = csrf.anonymous_token(services.peppers, cookie)
    response = form_page(template, form, csrf_token=token, member=None, **context)
    keep_form_cookie(response, request, services, cookie)
    return response


def form_page(template: str, form: FormState, **context: Any) -> HTMLResponse:
    """A page with its form's values and errors; its status and Retry-After follow the first error."""
    error = form.first_error
    return render(
        template,
        {"form": form, **context},
        status=status_of(error) if error else 200,
        retry_after_seconds=retry_after_seconds(error) if error else None,
    )


def placed(error: PortalError, field_of_code: Mapping[str, str]) -> dict[str, PortalError]:
    """The error under the field its code belongs to, else under the whole form."""
    return {field_of_code.get(error.code, WHOLE_FORM): error}


def _check_origin(request: Request, services: Services) -> None:
    """The token decides; where the browser also says whose page it was, that must be ours."""
    if "origin" in request.headers or "sec-fetch-site" in request.headers:
        check_origin(request.scope, services.settings.server.public_url)
