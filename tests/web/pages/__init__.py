"""What the page tests share: a browser that fills in forms as people do, with no JavaScript."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from fastapi.testclient import TestClient
from httpx2 import Response

PASSWORD = "seven green kettles"
NEW_PASSWORD = "eight blue kettles"
ADDRESS = "203.0.113.7"


@dataclass
class Page(HTMLParser):
    """The parts of an HTML page that the tests ask for."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += f" {data.strip()}" if data.strip() else ""

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def input(self, name: str) -> dict[str, str | None]:
        return next(attributes for attributes in self.all("input") if attributes.get("name") == name)

    def input_of(self, element_id: str) -> dict[str, str | None]:
        return next(attributes for attributes in self.all("input") if attributes.get("id") == element_id)

    @property
    def token(self) -> str:
        return self.input("csrf_token")["value"] or ""


def read(response: Response) -> Page:
    """Parses an HTML answer."""
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    page = Page()
    page.feed(response.text)
    return page


def send(client: TestClient, path: str, *, form: str | None = None, **fields: Any) -> Response:
    """Opens the page `form` (or `path`), fills in its form and sends it to `path`; follows no redirect."""
    token = read(client.get(form or path)).token
    return client.post(path, data={"csrf_token": token} | fields, follow_redirects=False)


def sign_up(client: TestClient, tenant_name: str = "Alpha", email: str = "alice@example.org") -> Response:
    """Signs up and so in."""
    return send(client, "/signup", tenant_name=tenant_name, email=email, password=PASSWORD)


def sign_in(client: TestClient, email: str = "alice@example.org", password: str = PASSWORD, **fields: str) -> Response:
    """Signs in through the form."""
    return send(client, "/login", email=email, password=password, **fields)
