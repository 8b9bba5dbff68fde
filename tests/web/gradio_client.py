"""How the guard's tests speak to a served Gradio app: as a browser on the portal's own page does."""

from __future__ import annotations

import json
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from portal.accounts.sessions import COOKIE_NAME


@dataclass
class Served:
    """A running app. `fn_indices` are Gradio's numbers of the events by name."""

    url: str
    upload_dir: Path
    fn_indices: dict[str, int]
    routes: list[tuple[str, str]]
    clients: ExitStack = field(default_factory=ExitStack)

    def client(self, token: str | None, *, origin: str | None = None) -> httpx.Client:
        """A browser signed in with this token (None: anonymous) whose requests come from our own pages."""
        cookies = {COOKIE_NAME: token} if token else {}
        headers = {"Origin": origin or self.url, "Sec-Fetch-Site": "same-origin"}
        client = httpx.Client(base_url=self.url, cookies=cookies, headers=headers, timeout=20)
        return self.clients.enter_context(client)


def new_hash() -> str:
    return secrets.token_hex(6)


def upload(client: httpx.Client, content: str, name: str = "scan.txt") -> str:
    answer = client.post("/gradio_api/upload", files={"files": (name, content.encode())})
    assert answer.status_code == 200, answer.text
    (path,) = answer.json()
    return str(path)


def file_data(path: Any, **more: Any) -> dict[str, Any]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}, **more}


def event(served: Served, name: str, data: list[Any], session_hash: str, **more: Any) -> dict[str, Any]:
    return {"data": data, "fn_index": served.fn_indices[name], "session_hash": session_hash, **more}


def join(client: httpx.Client, served: Served, data: list[Any], session_hash: str, **more: Any) -> httpx.Response:
    return client.post("/gradio_api/queue/join", json=event(served, "echo", data, session_hash, **more))


def listen(client: httpx.Client, session_hash: str) -> list[dict[str, Any]]:
    """What the event stream of a session says until it ends; [{'status': …}] when it is refused."""
    with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session_hash}) as answer:
        if answer.status_code != 200:
            return [{"status": answer.status_code}]
        return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]


def output_of(messages: list[dict[str, Any]]) -> list[Any]:
    (done,) = [message for message in messages if message["msg"] == "process_completed"]
    return list(done["output"]["data"])
