"""Damaged weights are told from a check that could not be made: each has an exit status of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.errors import Unavailable
from portal.serving.configuration import FleetConfiguration
from portal.serving.shared_weights.verify import DAMAGED, REFUSED
from portal.serving.verifying import Verification, verified


def _fleet(folder: Path, script: str) -> FleetConfiguration:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return FleetConfiguration(checkpoint=folder, served_name="o", vllm_python=python, run_dir=folder / "run")


def test_weights_are_damaged_only_when_the_check_says_so(tmp_path: Path) -> None:
    assert verified(_fleet(tmp_path, "echo all as loaded.")) == Verification("all as loaded.", is_damaged=False)
    script = f"echo a library warns >&2; echo 1 tensor is bad. >&2; echo Restart. >&2; exit {DAMAGED}"
    assert verified(_fleet(tmp_path, script)) == Verification("1 tensor is bad.\nRestart.", is_damaged=True)


@pytest.mark.parametrize(
    ("script", "reason", "remedy"),
    [
        (f"echo No store. >&2; echo Start it. >&2; exit {REFUSED}", "No store.", "Start it."),
        ("echo 'ModuleNotFoundError: No module named ocr' >&2; exit 1", "No module named ocr", "fleet status"),
        ("kill -9 $$", "the check ended with status -9", "fleet status"),
        ("exit 1", "the check ended with status 1", "fleet status"),
    ],
)
def test_check_that_was_not_made_says_nothing_of_the_weights(
    tmp_path: Path, script: str, reason: str, remedy: str
) -> None:
    with pytest.raises(Unavailable, match="could not be verified") as refused:
        verified(_fleet(tmp_path, script))
    assert reason in refused.value.message
    assert remedy in refused.value.remedy
