"""A fleet's file is read whole or refused by the name of the key; the examples that are shipped are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.errors import SettingsError
from portal.serving.commands import environment
from portal.serving.configuration import load, size_bytes
from tests.running_portal import ROOT

EXAMPLES = sorted((ROOT / "deploy" / "fleet").glob("*.toml"))
_SMALLEST = """
checkpoint = "/c"
served_name = "ocr"
vllm_python = "/v/bin/python"
run_dir = "/run/x"
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_read(path: Path) -> None:
    fleet = load(path)
    assert fleet.is_cpu == (fleet.transport == "memfd")
    assert fleet.engine.args[0] == "--dtype=bfloat16"
    assert not fleet.mps


def test_cards_are_counted_as_the_plan_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(_SMALLEST + 'device = "1"')
    environ = environment(load(path))
    assert (environ["CUDA_DEVICE_ORDER"], environ["CUDA_VISIBLE_DEVICES"]) == ("PCI_BUS_ID", "1")


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        ("instance = 2", "the key 'instance' is not known"),
        ("instances = 0", "'instances': "),
        ('[engine]\nkv_cache = "much"', "'engine.kv_cache': .*no size"),
        ('[engine]\nkv_cache = "-1 GiB"', "'engine.kv_cache': .*no size"),
        ("[patience]\nfailures = -1", "'patience.failures': "),
        ('transport = "shm"', "'transport': "),
        ('transport = "memfd"', "memfd does not fit the device '0'"),
        ('device = "cpu"', "cuda_vmm does not fit the device 'cpu'"),
        ('device = "cpu"\ntransport = "memfd"\nmps = true', "no.*on CPU|none on CPU"),
        ("[control]\nport = 9000", "needs both control.port and control.token_file"),
        ("first_port = 7999", "same port"),
        ('served_name = "a b"', "no TOML"),
        ("instances = ", "no TOML"),
    ],
)
def test_file_is_refused_by_the_name_of_the_key(tmp_path: Path, added: str, reason: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(_SMALLEST + added)
    with pytest.raises(SettingsError, match=reason):
        load(path)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(("text", "size"), [("4 GiB", 4 << 30), ("1.5MB", 1_500_000), ("7", 7), ("2 gib", 2 << 30)])
def test_sizes_are_words_or_bytes(text: str, size: int) -> None:
    assert size_bytes(text) == size
