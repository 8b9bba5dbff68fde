"""The exact body of each request, by profile and task. Pure; golden tests hold every one of them."""

from __future__ import annotations

from typing import Any

from portal.engine.base import Call
from portal.engine.loops import SAFE_DETECTION
from portal.engine.profiles.base import Ask, Profile, Sampling


def page_body(
    profile: Profile, model: str, ask: Ask, image_url: str, *, sampling: Sampling, call: Call
) -> dict[str, Any]:
    """A page image, and the prompt after it where the checkpoint takes one; an answer as a stream."""
    content: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": image_url}}]
    if ask.text is not None:
        content.append({"type": "text", "text": ask.text})
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if profile.system is not None:
        messages.insert(0, {"role": "system", "content": profile.system})
    return {
        "model": model,
        "messages": messages,
        "max_tokens": profile.max_tokens,
        **sampling.parameters(),
        **profile.extra,
        **_streamed(),
        "repetition_detection": SAFE_DETECTION,
        "priority": call.priority,
    }


def text_body(model: str, system: str, text: str, *, max_tokens: int) -> dict[str, Any]:
    """Text in, text out, with nothing in it that another OpenAI-compatible server than vLLM would refuse."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0.0, **_streamed()}


def with_scores(body: dict[str, Any]) -> dict[str, Any]:
    """The body, asking for each token's probability and for no others (48 kB for 600 tokens; with 20: 739 kB)."""
    return {**body, "logprobs": True, "top_logprobs": 0}


def _streamed() -> dict[str, Any]:
    return {"stream": True, "stream_options": {"include_usage": True}}
