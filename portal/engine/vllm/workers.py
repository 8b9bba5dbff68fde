"""Whether vllm-router stands in front of several vLLMs, and how they are: its `GET /workers` (vllm-router 0.1.17)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel

from portal.engine.vllm.options import ServerOptions


@dataclass(frozen=True)
class Worker:
    """One vLLM behind the router: host and port, whether the router takes it for healthy, requests under way."""

    address: str
    is_healthy: bool
    load: int | None


class _Listed(BaseModel):
    url: str
    is_healthy: bool
    load: int | None = None


class _List(BaseModel):
    workers: list[_Listed]


def workers_behind(server: ServerOptions, *, seconds: float) -> tuple[Worker, ...] | None:
    """The router's workers; None when there is no router, or it does not answer. Each step takes so long at most."""
    headers = {"Authorization": f"Bearer {server.api_key.get_secret_value()}"} if server.api_key else {}
    try:
        with httpx.Client(trust_env=False, timeout=seconds, headers=headers) as client:
            answer = client.get(f"{server.url.removesuffix('/v1')}/workers")
        listed = _List.model_validate_json(answer.content).workers if answer.is_success else None
        return None if listed is None else tuple(_worker(one) for one in listed)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None


def _worker(listed: _Listed) -> Worker:
    """With host and port alone: an address may carry more than people should see."""
    place = urlsplit(listed.url if "://" in listed.url else f"//{listed.url}").netloc.rpartition("@")[2]
    return Worker(place, listed.is_healthy, listed.load)
