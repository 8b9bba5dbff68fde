"""How many instances fit beside one copy of the weights, and why. Pure: sizes in, a plan or a refusal out.

Device and host are counted apart. Assumed sizes are marked as such; `fleet gpu-check` measures them on a card.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from portal.errors import SettingsError
from portal.serving.card import Memory
from portal.serving.checkpoint_headers import CheckpointShape
from portal.serving.configuration import FleetConfiguration

CUDA_CONTEXT_BYTES = 600 << 20  # assumed: context, kernels and cuBLAS's workspace of one process
ENGINE_HOST_BYTES = 1000 << 20  # measured with vLLM 0.32: API process and EngineCore, 450 MB each
WORKER_HOST_BYTES = 400 << 20  # measured: the worker without weights and cache
STORE_HOST_BYTES = 20 << 20  # measured: 17 MB
ALIGNMENT_FRACTION = 0.01  # alignment and buffers beside the parameters
PROCESS_BUFFERS_BYTES = 10 << 20  # small buffers of which each instance has its own

_BATCHED_TOKENS = 8192  # vLLM's budget of tokens in one step with chunked prefill
_LAYER_WIDTHS = 12  # live activations of a step, in hidden widths: residual, attention and a feed-forward of 4 widths

Basis = Literal["read", "set", "assumed", "measured", "counted"]


@dataclass(frozen=True)
class PlanRow:
    """One line: what, where, for how many, how large each, and where the number comes from."""

    what: str
    place: Literal["device", "host"]
    count: int
    each_bytes: int
    basis: Basis
    is_shared: bool = False

    @property
    def total_bytes(self) -> int:
        """All of them together."""
        return self.count * self.each_bytes


@dataclass(frozen=True)
class MemoryPlan:
    """`limit_bytes` is what the rule leaves of the device; `fitting` how many instances that holds."""

    device: Memory
    rows: tuple[PlanRow, ...]
    limit_bytes: int
    instances: int
    fitting: int
    kv_tokens: int
    weights_bytes: int

    def used_bytes(self, place: Literal["device", "host"]) -> int:
        """What the fleet takes there."""
        return sum(row.total_bytes for row in self.rows if row.place == place)

    def refuse_unless_it_fits(self) -> None:
        """Raises SettingsError with the number that would."""
        if self.fitting >= self.instances:
            return
        if self.fitting:
            remedy = f"Set instances to {self.fitting}, or lower engine.kv_cache."
        else:
            remedy = "Lower engine.kv_cache, free the device, or use a larger one: not even one instance fits."
        raise SettingsError(
            f"{self.instances} instances need {_gigabytes(self.used_bytes('device'))} on {self.device.name}, and"
            f" {_gigabytes(self.limit_bytes)} of its {_gigabytes(self.device.total_bytes)} may be used.",
            remedy=remedy,
        )


def make_plan(fleet: FleetConfiguration, shape: CheckpointShape, device: Memory) -> MemoryPlan:
    """Lays out the fleet on a device of this size. Raises SettingsError when a sequence does not fit into the cache."""
    kv_tokens = fleet.engine.kv_cache // shape.kv_token_bytes
    if kv_tokens < fleet.engine.max_model_len:
        needed = shape.kv_token_bytes * fleet.engine.max_model_len
        raise SettingsError(
            f"A KV cache of {_gigabytes(fleet.engine.kv_cache)} holds {kv_tokens} tokens, fewer than one sequence"
            f" of {fleet.engine.max_model_len}.",
            remedy=f"Set engine.kv_cache to at least {needed} bytes, or lower engine.max_model_len.",
        )
    rows = (*_once(fleet, shape), *_each(fleet, shape))
    fixed = sum(row.total_bytes for row in rows if row.place == "device" and row.is_shared)
    each = sum(row.each_bytes for row in rows if row.place == "device" and not row.is_shared)
    limit = max(0, int(device.total_bytes * fleet.card.use_fraction) - device.used_bytes)
    fitting = max(0, (limit - fixed) // each)
    return MemoryPlan(device, rows, limit, fleet.instances, fitting, kv_tokens, shape.weights_bytes)


def _once(fleet: FleetConfiguration, shape: CheckpointShape) -> list[PlanRow]:
    weights = int(shape.weights_bytes * (1 + ALIGNMENT_FRACTION))
    # Building an instance takes a copy for a moment. While a lost store is published anew the old memory, the new and
    # the loader's model are there at once, unless the old one goes with its owner (cuda_ipc).
    passing = 1 if fleet.transport == "cuda_ipc" else 2
    rows = [
        PlanRow("weights, one copy", "device", 1, weights, "read", is_shared=True),
        PlanRow("room to start or republish", "device", passing, weights, "counted", is_shared=True),
    ]
    if fleet.transport == "cuda_ipc":
        rows.append(PlanRow("store's context", "device", 1, CUDA_CONTEXT_BYTES, "assumed", is_shared=True))
    place: Literal["device", "host"] = "device" if fleet.is_cpu else "host"
    return [*rows, PlanRow("store", place, 1, STORE_HOST_BYTES, "measured", is_shared=True)]


def _each(fleet: FleetConfiguration, shape: CheckpointShape) -> list[PlanRow]:
    count = fleet.instances
    place: Literal["device", "host"] = "device" if fleet.is_cpu else "host"
    rows = [
        PlanRow("KV cache", "device", count, fleet.engine.kv_cache, "set"),
        _activations(fleet, shape),
        PlanRow("own buffers", "device", count, PROCESS_BUFFERS_BYTES, "measured"),
    ]
    if not fleet.is_cpu:
        set_by_hand = fleet.card.context is not None
        context = fleet.card.context or CUDA_CONTEXT_BYTES
        rows.append(PlanRow("CUDA context", "device", count, context, "set" if set_by_hand else "assumed"))
    return [
        *rows,
        PlanRow("API process and engine", place, count, ENGINE_HOST_BYTES, "measured"),
        PlanRow("worker", place, count, WORKER_HOST_BYTES, "measured"),
    ]


def _activations(fleet: FleetConfiguration, shape: CheckpointShape) -> PlanRow:
    """One step's hidden states in bfloat16, and the logits of all sequences in float32."""
    if fleet.card.activations is not None:
        return PlanRow("activations", "device", fleet.instances, fleet.card.activations, "set")
    tokens = max(_BATCHED_TOKENS, fleet.engine.max_model_len)
    needed = tokens * shape.hidden_width * _LAYER_WIDTHS * 2 + fleet.engine.max_num_seqs * shape.vocabulary * 4
    return PlanRow("activations", "device", fleet.instances, needed, "assumed")


def table(plan: MemoryPlan) -> str:
    """The plan for people: a row for each part, then what may be used and how many fit."""
    lines = [f"{'where':<7} {'what':<26} {'count':>5} {'each':>10} {'together':>10}  basis"]
    for place in ("device", "host"):
        lines += [_line(row) for row in plan.rows if row.place == place]
    used = plan.used_bytes("device")
    lines += [
        f"device: {_gigabytes(used)} of {_gigabytes(plan.limit_bytes)} that may be used of {plan.device.name}"
        f" ({_gigabytes(plan.device.total_bytes)}, {_gigabytes(plan.device.used_bytes)} in use by others)",
        f"host: {_gigabytes(plan.used_bytes('host'))}",
        f"KV cache of an instance: {plan.kv_tokens} tokens",
        f"instances: {plan.instances} wanted, {plan.fitting} fit",
    ]
    return "\n".join(lines)


def _line(row: PlanRow) -> str:
    each, together = _gigabytes(row.each_bytes), _gigabytes(row.total_bytes)
    return f"{row.place:<7} {row.what:<26} {row.count:>5} {each:>10} {together:>10}  {row.basis}"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
