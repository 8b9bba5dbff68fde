"""A loader whose memory fails: one bit of the segment flips after it was filled and before it is sealed."""

from __future__ import annotations

import socket
import sys
import time

import torch
from ocr_shared_weights.manifest import Checkpoint, Manifest
from ocr_shared_weights.packing import fill, laid_out, tensors_of
from ocr_shared_weights.transports.memfd import Memfd
from ocr_shared_weights.wire import send

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
layout = laid_out(tensors_of(model))
segment = Memfd().create(layout.total_bytes, "cpu")
entries = fill(segment.tensor, layout)
if "damaged" in sys.argv:
    segment.tensor[entries[2].offset + 17] ^= 4
segment.seal()
made = Manifest(Checkpoint("/x", "0", ()), {}, entries, layout.ties, layout.total_bytes, "memfd", time.time())
with socket.socket(fileno=int(sys.argv[sys.argv.index("--channel") + 1])) as channel:
    send(channel, {"ok": True, "manifest": made.to_json(), "handle": {}}, segment.export().descriptor)
