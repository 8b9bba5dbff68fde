from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from tests.web.pages import PASSWORD, read, send, sign_up
from tests.web.pages.conftest import NewClient

AUTOCOMPLETE = {
    "/login": {"email": "username", "password": "current-password"},
    "/signup": {"tenant_name": "organization", "email": "username", "password": "new-password"},
    "/account": {"current_password": "current-password", "new_password": "new-password"},
}


@pytest.mark.parametrize("path", ["/login", "/signup", "/account", "/nowhere", "/broken"])
def test_page_is_well_built(client: TestClient, new_client: NewClient, path: str) -> None:
    browser = new_client()
    if path == "/account":
        sign_up(browser)
    page = read(browser.get(path))
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert len(page.all("main")) == 1
    labelled = {label["for"] for label in page.all("label")}
    for field in page.all("input"):
        if field.get("type") != "hidden" and "hidden" not in field:
            assert field["id"] in labelled
    assert all(not attributes.get("style") for _, attributes in page.tags)
    assert all(script.get("src") for script in page.all("script"))
    for name, autocomplete in AUTOCOMPLETE.get(path, {}).items():
        assert page.input(name)["autocomplete"] == autocomplete


def test_everything_a_page_loads_is_our_own(client: TestClient) -> None:
    page = read(client.get("/login"))
    loaded = [tag.get("src") or tag.get("href") for tag in page.all("link") + page.all("script")]
    assert loaded
    assert all(address and address.startswith("/static/") for address in loaded)


def test_pages_are_not_cached_and_carry_the_policy(client: TestClient) -> None:
    response = client.get("/login")
    assert response.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nowhere", 404, "There is no such page."),
        ("/gone", 404, "There is no such job."),
        ("/away", 503, "The database does not answer."),
        ("/broken", 500, "It was not your doing."),
    ],
)
def test_error_becomes_a_page_with_words(client: TestClient, path: str, status: int, words: str) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert words in read(response).text
    assert response.headers["x-request-id"] in response.text
    assert "secret detail" not in response.text
    assert ("retry-after" in response.headers) == (status == 503)


def test_no_page_repeats_a_password(client: TestClient) -> None:
    answers = [
        send(client, "/login", email="a@example.org", password=PASSWORD),
        send(client, "/signup", tenant_name="A", email="a@example.org", password=PASSWORD),
    ]
    sign_up(client)
    answers.append(send(client, "/account", action="change_password", current_password=PASSWORD, new_password=""))
    assert all(PASSWORD not in answer.text for answer in answers)
