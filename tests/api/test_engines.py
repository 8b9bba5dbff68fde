"""/v1/models: OpenAI's list of models, with what each engine can do."""

from __future__ import annotations

import httpx
from mistralai.client import Mistral
from mistralai.client.models import BaseModelCard

from tests.api.conftest import Persona, Portal, assert_problem


def test_models_say_what_they_can_do_and_why_not(alice: Persona) -> None:
    body = alice.client.get("/v1/models").json()
    assert body["object"] == "list"
    [model] = body["data"]
    assert (model["id"], model["object"], model["is_default"]) == ("fake", "model", True)
    assert (model["checkpoint"], model["tasks"], model["languages"]) == ("fake-checkpoint", ["extract"], ["en"])
    assert set(model["unavailable"]) == {"fields", "translate"}
    assert (model["modes"], model["targets"], model["notice"]) == (["document"], [], None)
    assert isinstance(model["created"], int)
    assert model["owned_by"]


def test_models_need_a_key(live: Portal) -> None:
    assert_problem(httpx.get(f"{live.url}/v1/models"), 401, "unauthenticated")


def test_models_are_listed_by_the_mistral_client(live: Portal, alice: Persona) -> None:
    with Mistral(api_key=alice.key, server_url=live.url) as client:
        answer = client.models.list()
    assert answer.data is not None
    [model] = answer.data
    assert isinstance(model, BaseModelCard)
    assert (model.id, model.capabilities.ocr) == ("fake", True)
