from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from models import Member, Tenant
from portal.accounts import sessions, throttle
from portal.db import Database
from tests.web.pages import ADDRESS, PASSWORD, read, send, sign_up
from tests.web.pages.conftest import NewClient


def _tenants(database: Database) -> list[str]:
    with database.reading() as session:
        return list(session.scalars(select(Tenant.name)))


def test_owner_is_signed_in_when_signed_up(client: TestClient, sqlite_database: Database) -> None:
    response = sign_up(client)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    signed_in = sessions.resolve(sqlite_database, client.cookies[sessions.COOKIE_NAME])
    assert signed_in is not None
    assert (signed_in.principal.tenant_name, signed_in.principal.role) == ("Alpha", "owner")
    with sqlite_database.reading() as session:
        member = session.scalars(select(Member)).one()
    assert PASSWORD not in member.password_hash
    assert client.get("/signup", follow_redirects=False).headers["location"] == "/"


def test_each_field_says_what_is_wrong_when_all_are(client: TestClient, sqlite_database: Database) -> None:
    response = send(client, "/signup", tenant_name="admin", email="alice", password="short")
    page = read(response)
    assert response.status_code == 422
    for name, words in (("tenant_name", "reserved"), ("email", "not an e-mail"), ("password", "at least 8")):
        field = page.input(name)
        assert field["aria-invalid"] == "true"
        assert field["aria-describedby"] == f"{name}-error"
        assert words in page.text
    assert page.input("tenant_name")["value"] == "admin"
    assert page.input("email")["value"] == "alice"
    assert "value" not in page.input("password")
    assert _tenants(sqlite_database) == []


@pytest.mark.parametrize(
    ("tenant_name", "email", "field"),
    [("Alpha", "bob@example.org", "tenant_name"), ("Beta", "ALICE@example.org", "email")],
)
def test_field_says_so_when_its_value_is_taken(
    client: TestClient, new_client: NewClient, sqlite_database: Database, tenant_name: str, email: str, field: str
) -> None:
    sign_up(client)
    response = sign_up(new_client(), tenant_name, email)
    page = read(response)
    assert response.status_code == 409
    assert page.input(field)["aria-invalid"] == "true"
    assert page.input("email")["value"] == email
    assert _tenants(sqlite_database) == ["Alpha"]


def test_nothing_is_made_when_the_token_is_wrong(client: TestClient, sqlite_database: Database) -> None:
    client.get("/signup")
    fields = {"tenant_name": "Alpha", "email": "alice@example.org", "password": PASSWORD, "csrf_token": "x"}
    response = client.post("/signup", data=fields)
    assert response.status_code == 403
    assert read(response).input("tenant_name")["value"] == "Alpha"
    assert _tenants(sqlite_database) == []


def test_page_says_when_to_come_back_when_an_address_signed_up_too_often(
    client: TestClient, new_client: NewClient, sqlite_database: Database
) -> None:
    sign_up(client)
    stranger = new_client(address=ADDRESS)
    for _ in range(throttle.MAX_SIGN_UPS - 2):
        with sqlite_database.transaction() as session:
            throttle.begin_sign_up(session, ADDRESS)
    assert sign_up(stranger).status_code == 409
    response = sign_up(stranger, "Beta", "beta@example.org")
    assert response.status_code == 429
    assert "Try again in 60 minutes." in read(response).text
    assert _tenants(sqlite_database) == ["Alpha"]


def test_page_says_whom_to_ask_when_registration_is_closed(new_client: NewClient, sqlite_database: Database) -> None:
    client = new_client(REGISTRATION="closed")
    response = client.get("/signup")
    assert response.status_code == 403
    assert "Ask the person who runs it" in read(response).text
    assert "/signup" not in client.get("/login").text
    token = read(client.get("/login")).token
    fields = {"tenant_name": "Alpha", "email": "alice@example.org", "password": PASSWORD, "csrf_token": token}
    assert client.post("/signup", data=fields).status_code == 403
    assert _tenants(sqlite_database) == []


def test_pages_link_back_and_forth_and_keep_the_target(client: TestClient) -> None:
    login, signup = read(client.get("/login?next=/keys")), read(client.get("/signup?next=/keys"))
    assert "/signup?next=/keys" in [link["href"] for link in login.all("a")]
    assert "/login?next=/keys" in [link["href"] for link in signup.all("a")]
    response = send(client, "/signup", tenant_name="Alpha", email="alice@example.org", password=PASSWORD, next="/keys")
    assert response.headers["location"] == "/keys"
