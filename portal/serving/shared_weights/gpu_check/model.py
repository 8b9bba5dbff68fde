"""A stand-in for the language model: blocks of LightOnOCR's widths, as many as make the wanted size, random weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

HIDDEN, FEED_FORWARD, HEADS, TOKENS = 1024, 3072, 16, 256
_BLOCK = {
    "qkv": (3 * HIDDEN, HIDDEN),
    "out": (HIDDEN, HIDDEN),
    "gate_up": (2 * FEED_FORWARD, HIDDEN),
    "down": (HIDDEN, FEED_FORWARD),
}
BLOCK_BYTES = 2 * sum(rows * columns for rows, columns in _BLOCK.values())


def block_count(megabytes: int) -> int:
    """As many blocks as fit, one at least."""
    return max(1, megabytes * 1_000_000 // BLOCK_BYTES)


def random_weights(blocks: int, device: str) -> dict[str, torch.Tensor]:
    """The same on each call on the same device."""
    import torch

    source = torch.Generator(device=device).manual_seed(7)
    return {
        f"{number}.{name}": (torch.randn(shape, generator=source, device=device) * 0.02).to(torch.bfloat16)
        for number in range(blocks)
        for name, shape in _BLOCK.items()
    }


def page(device: str) -> torch.Tensor:
    """An input of (TOKENS, HIDDEN), the same on each call on the same device."""
    import torch

    source = torch.Generator(device=device).manual_seed(11)
    return torch.randn((TOKENS, HIDDEN), generator=source, device=device).to(torch.bfloat16)


def forward(weights: Mapping[str, torch.Tensor], hidden: torch.Tensor, blocks: int) -> torch.Tensor:
    """All blocks in turn: attention and a gated feed-forward, each normalised and added."""
    from torch.nn import functional

    for number in range(blocks):
        normal = functional.rms_norm(hidden, (HIDDEN,))
        query, key, value = (normal @ weights[f"{number}.qkv"].t()).chunk(3, dim=-1)
        heads = [part.view(TOKENS, HEADS, -1).transpose(0, 1) for part in (query, key, value)]
        mixed = functional.scaled_dot_product_attention(*heads).transpose(0, 1).reshape(TOKENS, HIDDEN)
        hidden = hidden + mixed @ weights[f"{number}.out"].t()
        gate, up = (functional.rms_norm(hidden, (HIDDEN,)) @ weights[f"{number}.gate_up"].t()).chunk(2, dim=-1)
        hidden = hidden + (functional.silu(gate) * up) @ weights[f"{number}.down"].t()
    return hidden


def fingerprint(result: torch.Tensor) -> str:
    """Equal only for results that are equal in every bit."""
    import hashlib

    import torch

    return hashlib.sha256(memoryview(result.contiguous().view(torch.uint8).cpu().numpy())).hexdigest()
