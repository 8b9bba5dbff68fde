"""From a request's parts to the body that vLLM is sent: laid out, worded and bounded as the engine's profile says."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.domain import Mode, Principal, Scope, Task
from portal.door.image_check import CheckedImage
from portal.engine.base import Engine
from portal.engine.loops import SAFE_DETECTION
from portal.engine.profiles.base import Profile
from portal.engine.vllm.engine import VllmEngine
from portal.errors import Forbidden, InvalidRequest

_KEYS = re.compile(r"\[ ?'[^'\[\]{}\n]{1,80}'(?: ?, ?'[^'\[\]{}\n]{1,80}')* ?\]")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Asked:
    """What a request says beside its image. `system` and `text` are None where it has none (or only white space).

    `sampling` are parameters under vLLM's names, within their bounds; `max_tokens` None is as many as there may be.
    """

    text: str | None = None
    system: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    is_stream: bool = False
    stream_options: Mapping[str, bool] | None = None


@dataclass(frozen=True)
class Order:
    """A request that may be made: whom it goes to, what is said, and what it is counted as."""

    engine: Engine
    vllm: VllmEngine
    image: CheckedImage
    body: Mapping[str, Any]
    task: Task
    is_stream: bool


def prompts(profile: Profile) -> dict[str, str]:
    """What a key without the scope `prompt` may say to the checkpoint, by mode or task; empty for one without text."""
    read = {mode.value: ask.text for mode, ask in profile.extract.items() if ask.text is not None}
    turned = {f"translate-{code}": ask.text for code, ask in profile.translate.items() if ask.text is not None}
    return read | turned | ({"fields": profile.fields} if profile.fields else {})


def order_of(asked: Asked, image: CheckedImage, engine: Engine, vllm: VllmEngine, principal: Principal) -> Order:
    """The order of a request.

    Raises InvalidRequest (prompt_not_taken) for text where none is taken, Forbidden (prompt_not_allowed) for words of
    one's own.
    """
    profile = vllm.options.profile
    _require_own_words(asked, profile, principal)
    text = asked.text or profile.extract[Mode.DOCUMENT].text
    system = asked.system if asked.system is not None else profile.system
    content: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": ""}}]
    if text is not None:
        content.append({"type": "text", "text": text})
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    body = {
        "model": vllm.options.server.model,
        "messages": messages,
        **profile.sampling.parameters(),
        **profile.extra,
        **asked.sampling,
        "max_tokens": min(asked.max_tokens or vllm.max_tokens, vllm.max_tokens),
        "stream": asked.is_stream,
        "repetition_detection": SAFE_DETECTION,
    }
    if asked.stream_options is not None:
        body["stream_options"] = dict(asked.stream_options)
    return Order(engine, vllm, image, body, _task(asked, profile), asked.is_stream)


class Letter:
    """An order's body as bytes: JSON with the image's base64 in its place, made piece by piece, as often as asked."""

    def __init__(self, order: Order, *, priority: int) -> None:
        mark = secrets.token_hex(16)
        image = order.image
        messages = [dict(message) for message in order.body["messages"]]
        url = {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{mark}"}}
        messages[-1]["content"] = [url, *messages[-1]["content"][1:]]
        written = _ENCODER.encode({**order.body, "messages": messages, "priority": priority})
        before, _, after = written.partition(mark)
        self._image = image.spooled
        self._before, self._after = _bytes(before), _bytes(after)
        self.length_bytes = len(self._before) + image.spooled.encoded_size + len(self._after)

    def pieces(self) -> Iterator[bytes]:
        """The bytes."""
        yield self._before
        yield from self._image.encoded()
        yield self._after


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # halves of surrogate pairs, which JSON can name and UTF-8 cannot hold


def _require_own_words(asked: Asked, profile: Profile, principal: Principal) -> None:
    own = prompts(profile)
    if asked.text is not None and not own:
        raise InvalidRequest(
            f"{profile.title} takes an image and no text.",
            code="prompt_not_taken",
            remedy="Leave the text parts out: with text it would repeat them in its answer.",
        )
    if asked.system not in (None, profile.system) and not own:
        raise InvalidRequest(
            f"{profile.title} takes no system message.", code="prompt_not_taken", remedy="Leave it out."
        )
    is_own = asked.system in (None, profile.system) and (asked.text is None or _is_own(asked.text, profile))
    if not is_own and Scope.PROMPT not in principal.scopes:
        raise Forbidden(
            "The text is none of the model's own prompts, and this key may send no others.",
            code="prompt_not_allowed",
            remedy="Leave the text out, use a prompt that /v1/models lists for it under `chat`, or a key with the "
            "scope 'prompt'.",
        )


def _is_own(text: str, profile: Profile) -> bool:
    return text.strip() in {prompt.strip() for prompt in prompts(profile).values()} or _asks_fields(text, profile)


def _asks_fields(text: str, profile: Profile) -> bool:
    given = text.strip()
    before, _, after = (profile.fields or "").partition("{keys}")
    if not profile.fields or not (given.startswith(before) and given.endswith(after)):
        return False
    return _KEYS.fullmatch(given[len(before) : len(given) - len(after)]) is not None


def _task(asked: Asked, profile: Profile) -> Task:
    """What it is counted as. A prompt of one's own counts as extract."""
    text = asked.text or ""
    if text.strip() in {ask.text.strip() for ask in profile.translate.values() if ask.text}:
        return Task.TRANSLATE
    return Task.FIELDS if _asks_fields(text, profile) else Task.EXTRACT
