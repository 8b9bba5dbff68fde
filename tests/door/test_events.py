"""Events are cut out of any stream of bytes unchanged, and told apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.door.events import EventStream


def _chunk(text: str | None) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


@given(st.lists(st.text(max_size=12), max_size=6), st.lists(st.integers(1, 30), max_size=40))
def test_events_are_the_same_however_the_stream_is_cut(texts: list[str], cuts: list[int]) -> None:
    whole = b"".join(map(_chunk, texts)) + b": a comment\n\n" + b"data: [DONE]\n\n"
    stream, events, rest = EventStream(), [], whole
    for cut in cuts:
        events += stream.feed(rest[:cut])
        rest = rest[cut:]
    events += stream.feed(rest)
    assert b"".join(event.raw for event in events) == whole
    assert [event.has_text for event in events] == [*(bool(text.strip()) for text in texts), False, False]
    assert [event.is_end for event in events] == [False] * (len(texts) + 1) + [True]


def test_error_is_told_from_a_text_that_speaks_of_one() -> None:
    said, failed = EventStream().feed(_chunk('{"error": 1}') + b'data: {"error": {"message": "x"}}\n\n')
    assert (said.is_error, failed.is_error) == (False, True)


@pytest.mark.parametrize("raw", [b"data: {not json\n\n", b"data: []\n\n", b"data: 1\n\n"])
def test_event_that_is_no_object_is_not_understood(raw: bytes) -> None:
    [event] = EventStream().feed(raw)
    with pytest.raises(ValueError):  # noqa: PT011
        event.has_text  # noqa: B018


@pytest.mark.parametrize(
    "value", [{}, {"choices": []}, {"choices": [1]}, {"choices": [{"delta": None}]}, {"choices": 3}]
)
def test_event_without_a_choice_has_no_text(value: object) -> None:
    [event] = EventStream().feed(b"data: " + json.dumps(value).encode() + b"\n\n")
    assert not event.has_text


def test_event_without_an_end_is_given_up() -> None:
    stream = EventStream()
    with pytest.raises(ValueError, match="without an end"):
        for _ in range(10):
            stream.feed(b"x" * 2**20)
