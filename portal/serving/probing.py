"""Asking an instance whether it lives, whether it moves, and whether it can really read a page."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass

import httpx

_ANSWER_SECONDS = 5.0
_SAMPLE = re.compile(r"""^(vllm:[a-z_]+)(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})? ([-+0-9.eE]+)$""", re.MULTILINE)
_PROGRESS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total")


@dataclass(frozen=True)
class Activity:
    """What an instance is busy with. `progress` grows with each token; `finished` counts requests."""

    running: int
    waiting: int
    progress: float
    finished: int
    cache_used: float

    @property
    def is_idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return self.running == 0 and self.waiting == 0


async def activity(client: httpx.AsyncClient, url: str) -> Activity | None:
    """None when it does not answer. `/health` first: metrics come from a process that may outlive its engine."""
    try:
        if (await client.get(f"{url}/health", timeout=_ANSWER_SECONDS)).status_code != 200:
            return None
        answer = await client.get(f"{url}/metrics", timeout=_ANSWER_SECONDS)
        return parsed(answer.text) if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None


def parsed(text: str) -> Activity:
    """Reads Prometheus text; labels are summed over."""
    sums: dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        sums[name] = sums.get(name, 0.0) + float(value)
    return Activity(
        running=int(sums.get("vllm:num_requests_running", 0)),
        waiting=int(sums.get("vllm:num_requests_waiting", 0)),
        progress=sum(sums.get(name, 0.0) for name in _PROGRESS),
        finished=int(sums.get("vllm:request_success_total", 0)),
        cache_used=sums.get("vllm:kv_cache_usage_perc", 0.0),
    )


async def reads_a_page(client: httpx.AsyncClient, url: str, model: str, seconds: float) -> bool:
    """Whether a probe image is answered in time: `/health` says yes long before the first image is."""
    part = {"type": "image_url", "image_url": {"url": _probe_image()}}
    body = {"model": model, "messages": [{"role": "user", "content": [part]}], "max_tokens": 4, "temperature": 0}
    try:
        answer = await client.post(f"{url}/v1/chat/completions", json=body, timeout=seconds)
        return answer.status_code == 200 and bool(dict(answer.json()).get("choices"))
    except (httpx.HTTPError, TypeError, ValueError):  # what it sends may be no JSON, or no object
        return False


def _probe_image() -> str:
    from PIL import Image, ImageDraw

    page = Image.new("RGB", (280, 200), "white")
    ImageDraw.Draw(page).text((20, 80), "The fleet reads its probe page.", fill="black")
    packed = io.BytesIO()
    page.save(packed, "PNG")
    return "data:image/png;base64," + base64.b64encode(packed.getvalue()).decode()
