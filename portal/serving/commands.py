"""What is started on the GPU box, word by word: store, instances, router; and the environment they get."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

from portal.errors import SettingsError
from portal.serving.configuration import FleetConfiguration
from portal.serving.memory_plan import MemoryPlan

_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
}
_STORE_WAIT_SECONDS = 60
_UTILISATION_MARGIN = 1.15


def environment(fleet: FleetConfiguration) -> dict[str, str]:
    """The operator's own, without the portal's settings and secrets, offline, and on the one device.

    A card's number means the same as to NVML, which planned for it: by default CUDA counts the fastest first.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PORTAL_")}
    device = {} if fleet.is_cpu else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": fleet.device}
    return {**inherited, **_OFFLINE, **device, **fleet.engine.environ}


def store_command(fleet: FleetConfiguration) -> list[str]:
    """The weight store, whose loader gets the instances' own options."""
    return [
        str(fleet.vllm_python),
        *("-m", "ocr_shared_weights.store"),
        *("--socket", str(fleet.store_socket)),
        *("--checkpoint", str(fleet.checkpoint)),
        *("--transport", fleet.transport),
        *("--engine-args", json.dumps(_common_options(fleet))),
    ]


def instance_command(fleet: FleetConfiguration, plan: MemoryPlan, number: int) -> list[str]:
    """One instance. vLLM demands its share of the card to be free even where the cache's size is given: so both."""
    loading = {
        "socket": str(fleet.store_socket),
        "name": instance_name(number),
        "verify": fleet.verify,
        "wait_seconds": _STORE_WAIT_SECONDS,
    }
    command = [
        str(fleet.vllm_python.parent / "vllm"),
        *("serve", str(fleet.checkpoint)),
        f"--served-model-name={fleet.served_name}",
        "--host=127.0.0.1",
        f"--port={fleet.first_port + number}",
        "--load-format=shared",
        f"--model-loader-extra-config={json.dumps(loading)}",
        f"--kv-cache-memory-bytes={fleet.engine.kv_cache}",
        f"--max-num-seqs={fleet.engine.max_num_seqs}",
        f"--shutdown-timeout={math.ceil(fleet.patience.stop_seconds)}",
        *_common_options(fleet),
    ]
    if not fleet.is_cpu:
        command.append(f"--gpu-memory-utilization={utilisation(fleet, plan):.3f}")
    return command


def router_command(fleet: FleetConfiguration, workers: list[str]) -> list[str]:
    """The router. It retries little and never opens a circuit: a poison page must not close the door to good ones."""
    policy = "power_of_two" if len(workers) > 1 else "round_robin"  # the former refuses to start with one worker
    return [
        str(fleet.vllm_python.parent / "vllm-router"),
        *("--host", fleet.router_host),
        *("--port", str(fleet.router_port)),
        *("--prometheus-host", "127.0.0.1"),
        *("--prometheus-port", str(fleet.router_metrics_port)),
        *("--policy", policy),
        *("--retry-max-retries", "2"),
        "--disable-circuit-breaker",
        *("--health-check-interval-secs", "3"),
        *("--request-timeout-secs", "900"),
        *("--max-payload-size", str(256 << 20)),
        *("--worker-urls", *workers),
    ]


def gpu_check_command(fleet: FleetConfiguration, megabytes: int, seconds: float, json_file: Path | None) -> list[str]:
    """The check of the card, in vLLM's environment."""
    device = "cpu" if fleet.is_cpu else "cuda:0"
    options = ["--device", device, "--megabytes", str(megabytes), "--seconds", str(seconds)]
    written = ["--json", str(json_file.absolute())] if json_file else []
    return [str(fleet.vllm_python), "-m", "ocr_shared_weights.gpu_check", *options, *written]


def run_in_front(fleet: FleetConfiguration, command: list[str]) -> int:
    """Runs a program on the fleet's device with this terminal; gives its status. Raises SettingsError."""
    try:
        return subprocess.run(command, env=environment(fleet), check=False).returncode  # noqa: S603
    except OSError as error:
        raise SettingsError(
            f"{command[0]} cannot be run: {error.strerror}.",
            remedy="Set vllm_python to the Python of vLLM's environment.",
        ) from error


def instance_name(number: int) -> str:
    """How people, logs and leases call it."""
    return f"instance-{number}"


def utilisation(fleet: FleetConfiguration, plan: MemoryPlan) -> float:
    """An instance's own part of the card and the weights (vLLM takes them off again), with a margin."""
    own = plan.weights_bytes + sum(row.each_bytes for row in plan.rows if row.place == "device" and not row.is_shared)
    return min(fleet.card.use_fraction, own * _UTILISATION_MARGIN / plan.device.total_bytes)


def _common_options(fleet: FleetConfiguration) -> list[str]:
    return [f"--max-model-len={fleet.engine.max_model_len}", *fleet.engine.args]
