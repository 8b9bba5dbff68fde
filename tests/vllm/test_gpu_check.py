"""The check of a card runs on CPU as far as it can, so that it does not fail for the first time on a GPU box."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.vllm.sharing import install_plugin


def test_check_finds_all_that_can_be_run_on_cpu_right(vllm_python: Path, tmp_path: Path) -> None:
    shared = install_plugin(vllm_python, tmp_path)
    options = ["--device", "cpu", "--megabytes", "30", "--seconds", "0.1", "--json", str(tmp_path / "found.json")]
    done = subprocess.run(
        [str(vllm_python), "-m", "ocr_shared_weights.gpu_check", *options],
        env={**os.environ, **shared.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line["what"]: line for line in json.loads((tmp_path / "found.json").read_text())["lines"]}
    for what in ("outputs equal an unshared model's", "a write faults only the writer", "store killed"):
        assert found[what]["is_right"], found[what]
    assert found["copies in memory with 4 readers"]["found"] == "not run: needs a card"
