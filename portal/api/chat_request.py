"""The body of POST /v1/chat/completions: the fields of OpenAI's API and vLLM's that are passed on, with their bounds.

What stands in no field here is refused by its name. Which words are allowed the door decides (portal/door/order.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from portal.api.json_body import JsonBody
from portal.api.problems import first_invalid
from portal.door.order import Asked
from portal.door.spool import SpooledImage
from portal.errors import InvalidRequest, PortalError
from portal.jobs.context import DEFAULT

_MAX_TEXT = 20_000
_SHOWN_NAME = 60
_SAMPLING = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "skip_special_tokens", "logprobs", "top_logprobs"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ImageUrl(_Part):
    """Where the image is: in the URL itself."""

    url: str = Field(description="`data:image/png;base64,…` (PNG, JPEG or WebP); remote URLs are refused")
    detail: Literal["auto", "low", "high"] | None = Field(default=None, description="Taken and ignored")


class ContentPart(_Part):
    """The image, or a text."""

    type: Literal["text", "image_url"]
    text: str | None = Field(default=None, max_length=_MAX_TEXT)
    image_url: ImageUrl | str | None = None


class Message(_Part):
    """`system` first where there is one, then one of `user` with one image."""

    role: Literal["system", "user"]
    content: Annotated[str, Field(max_length=_MAX_TEXT)] | Annotated[list[ContentPart], Field(max_length=16)]


class StreamOptions(_Part):
    """As in OpenAI's API."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class ChatRequest(_Part):
    """One page image, and a prompt of the model's own or none: it stands for the profile's usual one."""

    model: str = Field(default=DEFAULT, max_length=200, description="An engine's or a checkpoint's name, or `default`")
    messages: list[Message] = Field(min_length=1, max_length=2)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1, description="Lowered to what the model's profile allows")
    max_completion_tokens: int | None = Field(default=None, ge=1, description="The newer name of max_tokens")
    n: Literal[1] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2, description="The profile's where it is left out")
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, le=1000)
    min_p: float | None = Field(default=None, ge=0, le=1)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, gt=0, le=2)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop: (
        Annotated[str, Field(max_length=100)]
        | Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=4)]
        | None
    ) = None
    skip_special_tokens: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    user: str | None = Field(default=None, max_length=500, description="Taken, and not passed on")

    def asked(self) -> Asked:
        """What the door is asked, without the image."""
        given = {name: getattr(self, name) for name in _SAMPLING}
        options = self.stream_options.model_dump(exclude_none=True) if self.stream_options else None
        return Asked(
            text=_spoken(self.messages[-1]),
            system=_spoken(self.messages[0]) if len(self.messages) > 1 else None,
            sampling={name: value for name, value in given.items() if value is not None},
            max_tokens=self.max_completion_tokens or self.max_tokens,
            is_stream=bool(self.stream),
            stream_options=options if self.stream else None,
        )


def checked_request(body: JsonBody[SpooledImage]) -> ChatRequest:
    """The request, with one image that came with it. Raises InvalidRequest."""
    try:
        request = ChatRequest.model_validate(body.value())
    except ValidationError as error:
        raise _refusal(error) from None
    _require_order(request.messages)
    _require_one_image(request.messages, body)
    return request


def _refusal(error: ValidationError) -> PortalError:
    found = error.errors(include_input=False, include_context=False, include_url=False)
    unknown = [_name(each["loc"]) for each in found if each["type"] == "extra_forbidden"]
    if not unknown:
        first = found[0]
        return first_invalid([{**first, "loc": ("body", *(str(part)[:_SHOWN_NAME] for part in first["loc"]))}])
    return InvalidRequest(
        f"Not offered here: {', '.join(unknown[:10])}.",
        code="option_not_offered",
        remedy="Leave it out; /docs lists the fields that are passed on.",
    )


def _name(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part)[:_SHOWN_NAME] for part in place)


def _require_order(messages: list[Message]) -> None:
    roles = [message.role for message in messages]
    if roles not in (["user"], ["system", "user"]):
        raise InvalidRequest(
            f"messages: {' and '.join(roles)} are not what is taken.",
            remedy="Send one message of role 'user', with a message of role 'system' before it or none.",
        )


def _require_one_image(messages: list[Message], body: JsonBody[SpooledImage]) -> None:
    images = [part for message in messages for part in _parts(message) if part.type == "image_url"]
    if len(images) != 1 or images[0] not in _parts(messages[-1]):
        raise InvalidRequest(
            f"messages: {len(images)} images, where one in the message of the user is taken.",
            remedy="Send one page image in each request, as a part of type 'image_url'.",
        )
    url = images[0].image_url
    url = url.url if isinstance(url, ImageUrl) else url
    if url != body.placeholder:
        is_data = (url or "")[:5].lower() == "data:"
        raise InvalidRequest(
            "The data: URL is not base64." if is_data else "The portal fetches no URLs.",
            code="url_refused",
            remedy="Send the image itself as 'data:image/png;base64,<base64 of the file>'.",
        )


def _parts(message: Message) -> list[ContentPart]:
    return [] if isinstance(message.content, str) else message.content


def _spoken(message: Message) -> str | None:
    """The message's text; None where there is none but white space."""
    text = _text(message)
    return text if text.strip() else None


def _text(message: Message) -> str:
    return "\n".join(_texts(message))


def _texts(message: Message) -> Iterator[str]:
    if isinstance(message.content, str):
        yield message.content
    yield from (part.text for part in _parts(message) if part.type == "text" and part.text is not None)


class ChatCompletion(BaseModel):
    """As vLLM answers; with `stream`, chunks of it as server-sent events, and `[DONE]` at the end."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any] | None = None
