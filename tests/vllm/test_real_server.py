"""The server that the other tests stand on is a real one: it sees, and it repeats itself."""

from __future__ import annotations

from tests.vllm.servers import RealVllm, page_image


def test_reading_repeats_exactly_when_the_page_is_the_same(real_vllm: RealVllm) -> None:
    first, again = real_vllm.read(page_image(1)), real_vllm.read(page_image(1))
    assert len(first.tokens) == 32
    assert again == first


def test_reading_differs_when_the_page_does(real_vllm: RealVllm) -> None:
    assert real_vllm.read(page_image(1)).log_probabilities != real_vllm.read(page_image(2)).log_probabilities
