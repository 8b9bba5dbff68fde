"""Checks every tensor of a running store: `python -m ocr_shared_weights.verify --socket PATH`.

It runs in vLLM's environment.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import transports
from .client import attach
from .faults import DamagedWeights, SharedWeightsError
from .packing import refuse_damage

REFUSED = 3
DAMAGED = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0: all tensors are what the loader had. DAMAGED: some are not. REFUSED: they could not be looked at.

    The last two lines of standard error are reason and remedy.
    """
    parser = argparse.ArgumentParser(prog="ocr_shared_weights.verify")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0", help="where device memory is mapped; host memory needs none")
    given = parser.parse_args(arguments)
    try:
        attachment = attach(given.socket, name="verify")
        with attachment.lease:
            manifest = attachment.manifest
            device = "cpu" if manifest.transport == "memfd" else given.device
            segment = transports.named(manifest.transport).attach(attachment.handle, manifest.total_bytes, device)
            refuse_damage(segment.tensor, manifest.tensors)
    except SharedWeightsError as error:
        print(f"{error.message}\n{error.remedy}", file=sys.stderr)  # noqa: T201
        return DAMAGED if isinstance(error, DamagedWeights) else REFUSED
    print(f"{len(manifest.tensors)} tensors, {manifest.total_bytes / 1e6:.1f} MB: all as loaded.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
