"""What both sides do alike with vLLM: what must be equal between them, and how a model is finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .faults import SharedWeightsError
from .manifest import FORMAT


def refuse_unshareable(vllm_config: Any, model_config: Any) -> None:
    """One device, one model. Raises SharedWeightsError with the reason."""
    parallel = vllm_config.parallel_config
    if parallel.tensor_parallel_size != 1 or parallel.pipeline_parallel_size != 1:
        raise SharedWeightsError(
            "Weights that are split over devices are not shared.", "Use tensor and pipeline parallel sizes of 1."
        )
    if model_config is not vllm_config.model_config:
        raise SharedWeightsError("A draft model's weights are not shared.", "Leave speculative decoding out.")
    if vllm_config.lora_config is not None:
        raise SharedWeightsError("LoRA layers wrap the weights and are not shared.", "Leave LoRA out, or merge it.")


def identity(vllm_config: Any, model_config: Any, device: str) -> dict[str, str]:
    """What decides the shape and meaning of post-processed weights, name by name."""
    import torch
    import vllm.version

    from .transports.cuda_vmm import device_uuid

    configuration = model_config.hf_config.to_dict()
    for of_the_place in ("_name_or_path", "transformers_version"):
        configuration.pop(of_the_place, None)
    text = json.dumps(configuration, sort_keys=True, default=str)
    return {
        "plugin format": str(FORMAT),
        "architecture": ",".join(model_config.hf_config.architectures or ()),
        "configuration sha256": hashlib.sha256(text.encode()).hexdigest(),
        "dtype": str(model_config.dtype),
        "quantization": str(model_config.quantization),
        "vLLM": str(vllm.version.__version__),
        "torch": str(torch.__version__),
        "device": device_uuid(torch.cuda.current_device()) if device.startswith("cuda") else device,
    }


@contextmanager
def as_shared(device: str) -> Iterator[None]:
    """Post-processing inside of this leaves weights in the one layout that can be shared."""
    if device.startswith("cpu"):
        from .cpu_layers import plain_linear

        with plain_linear():
            yield
    else:
        yield
