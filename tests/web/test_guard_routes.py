"""The allow-list against the routes that this version of Gradio really mounts."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from portal.web.gradio_routes import ALLOWED, DENIED, AllowedRoutes, Check
from tests.web.gradio_client import Served

PAGES = {"/history", "/history/"}


def test_every_mounted_route_is_known(guarded: Served) -> None:
    known = {route.template for route in ALLOWED} | DENIED | PAGES
    unknown = {(method, template) for method, template in guarded.routes if template not in known}
    assert not unknown, "read these routes of Gradio, then allow or deny them in portal/web/gradio_routes.py"


def test_every_mounted_method_is_known_when_its_route_is_allowed(guarded: Served) -> None:
    allowed = {route.template: route.methods for route in ALLOWED}
    unknown = {
        (method, template)
        for method, template in guarded.routes
        if template in allowed and method not in allowed[template]
    }
    assert not unknown


def test_no_allowed_route_has_gone(guarded: Served) -> None:
    mounted = {(method, template) for method, template in guarded.routes}
    gone = {(method, route.template) for route in ALLOWED for method in route.methods} - mounted
    assert not gone


def test_whole_bundle_is_served() -> None:
    routes = AllowedRoutes(())
    frontend = Path(str(resources.files("gradio"))) / "templates" / "frontend"
    files = [path for folder in ("assets", "static") for path in (frontend / folder).rglob("*") if path.is_file()]
    assert len(files) > 100
    refused = [path.name for path in files if routes.match("GET", f"/{path.relative_to(frontend)}") is None]
    assert not refused


@pytest.mark.parametrize("page", ["", "history", "keys"])
def test_page_matches_when_it_is_one_of_the_apps(page: str) -> None:
    routes = AllowedRoutes(("", "history", "keys"))
    found = routes.match("GET", f"/{page}")
    assert found is not None
    assert found.route.check is Check.PAGE
    assert routes.is_page(f"/{page}")
    assert not routes.is_page("/assets/x.js")
    assert routes.match("POST", f"/{page}") is None
