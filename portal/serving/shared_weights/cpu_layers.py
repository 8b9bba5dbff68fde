"""CPU only: keeps linear layers from repacking their weights, which would be a private copy for each instance.

vLLM 0.32 repacks for oneDNN, AMX or zentorch in `dispatch_cpu_unquantized_gemm`; here a layer computes with
`torch.nn.functional.linear` on the tensor as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def plain_linear() -> Iterator[None]:
    """While this lasts, layers that are being finished stay plain."""
    from vllm.model_executor.layers import utils

    repacking = utils.dispatch_cpu_unquantized_gemm
    utils.dispatch_cpu_unquantized_gemm = _plain_instead_of(repacking)
    try:
        yield
    finally:
        utils.dispatch_cpu_unquantized_gemm = repacking


def keep_plain_for_good() -> None:
    """The same for all of this process's life."""
    from vllm.model_executor.layers import utils

    if not getattr(utils.dispatch_cpu_unquantized_gemm, "is_plain", False):
        utils.dispatch_cpu_unquantized_gemm = _plain_instead_of(utils.dispatch_cpu_unquantized_gemm)


def _plain_instead_of(repacking: Any) -> Any:
    import torch

    def dispatch(layer: torch.nn.Module, remove_weight: bool) -> None:
        if layer.weight.ndim == 2:
            layer.cpu_linear = torch.nn.functional.linear
        else:
            repacking(layer, remove_weight)

    dispatch.is_plain = True  # type: ignore[attr-defined]
    return dispatch
