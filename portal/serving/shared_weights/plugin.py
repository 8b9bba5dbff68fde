"""vLLM's entry point: makes `--load-format shared` known. Called in each of its processes, perhaps more than once."""

from __future__ import annotations

import os

PLAIN_LINEAR = "OCR_SHARED_WEIGHTS_PLAIN_LINEAR"


def register() -> None:
    """Registers the loader; OCR_SHARED_WEIGHTS_PLAIN_LINEAR=1 makes unshared CPU instances compute as shared ones."""
    from vllm.model_executor import model_loader

    if "shared" not in model_loader._LOAD_FORMAT_TO_MODEL_LOADER:
        from .shared_loader import SharedModelLoader

        model_loader.register_model_loader("shared")(SharedModelLoader)
    if os.environ.get(PLAIN_LINEAR) == "1":
        from .cpu_layers import keep_plain_for_good

        keep_plain_for_good()
