"""The plan counts the weights once, everything else for each instance, and names the number that would fit."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.errors import SettingsError
from portal.serving.card import Memory
from portal.serving.checkpoint_headers import CheckpointShape, read_shape
from portal.serving.configuration import FleetConfiguration
from portal.serving.memory_plan import make_plan, table

# As LightOnOCR-2-1B's configuration says: 28 layers, 8 heads of 128 for keys and values, bfloat16.
SHAPE = CheckpointShape("LightOnOCR", 1_000_000_000, 2_000_000_000, 2 * 28 * 8 * 128 * 2, 1024, 151_936)


def _fleet(instances: int = 2, kv_cache: int = 2 << 30, **more: object) -> FleetConfiguration:
    given = {"checkpoint": "/c", "served_name": "ocr", "vllm_python": "/v/bin/python", "run_dir": "/r", **more}
    return FleetConfiguration.model_validate({**given, "instances": instances, "engine": {"kv_cache": kv_cache}})


def _card(gigabytes: float, used: int = 0) -> Memory:
    return Memory("card", int(gigabytes * 1e9), used)


def test_weights_are_counted_once_whatever_the_number_of_instances() -> None:
    one, four = (make_plan(_fleet(count), SHAPE, _card(80)) for count in (1, 4))
    each = sum(row.each_bytes for row in one.rows if row.place == "device" and not row.is_shared)
    assert four.used_bytes("device") - one.used_bytes("device") == 3 * each
    assert one.rows[0].count == four.rows[0].count == 1
    assert one.used_bytes("device") > SHAPE.weights_bytes + (2 << 30)


def test_number_that_would_fit_is_named_when_the_wanted_one_does_not() -> None:
    plan = make_plan(_fleet(8), SHAPE, _card(24))
    assert 0 < plan.fitting < 8
    with pytest.raises(SettingsError, match="8 instances need") as refused:
        plan.refuse_unless_it_fits()
    assert f"Set instances to {plan.fitting}," in refused.value.remedy
    make_plan(_fleet(plan.fitting), SHAPE, _card(24)).refuse_unless_it_fits()


def test_plan_says_so_when_not_even_one_instance_fits() -> None:
    with pytest.raises(SettingsError) as refused:
        make_plan(_fleet(1), SHAPE, _card(8)).refuse_unless_it_fits()
    assert "not even one" in refused.value.remedy


def test_what_others_use_is_left_to_them() -> None:
    empty, busy = make_plan(_fleet(), SHAPE, _card(40)), make_plan(_fleet(), SHAPE, _card(40, used=20_000_000_000))
    assert busy.limit_bytes == empty.limit_bytes - 20_000_000_000
    assert busy.fitting < empty.fitting


def test_cache_that_holds_no_whole_sequence_is_refused_with_the_size_that_does() -> None:
    with pytest.raises(SettingsError, match="fewer than one sequence") as refused:
        make_plan(_fleet(kv_cache=100 << 20), SHAPE, _card(80))
    assert str(8192 * SHAPE.kv_token_bytes) in refused.value.remedy


def test_store_has_a_context_of_its_own_only_when_it_must_stay_alive() -> None:
    def names(transport: str) -> set[str]:
        return {row.what for row in make_plan(_fleet(transport=transport), SHAPE, _card(80)).rows}

    assert names("cuda_ipc") - names("cuda_vmm") == {"store's context"}


@given(st.integers(1, 32), st.floats(1, 200))
def test_what_fits_stays_below_the_limit(instances: int, gigabytes: float) -> None:
    plan = make_plan(_fleet(instances), SHAPE, _card(gigabytes))
    assert (plan.used_bytes("device") <= plan.limit_bytes) == (plan.fitting >= instances)


def test_table_keeps_device_and_host_apart() -> None:
    lines = table(make_plan(_fleet(), SHAPE, _card(24))).splitlines()
    places = [line.split()[0] for line in lines[1:-4]]
    assert places == sorted(places) == ["device"] * 6 + ["host"] * 3
    assert "weights, one copy" in lines[1]
    assert lines[-1].startswith("instances: 2 wanted, ")


def test_shape_is_read_from_headers_alone(tmp_path: Path) -> None:
    _write(tmp_path, {"a": {"dtype": "BF16", "shape": [4, 8]}, "b": {"dtype": "F32", "shape": [3]}, "__metadata__": {}})
    shape = read_shape(tmp_path)
    assert (shape.parameters, shape.weights_bytes) == (35, 76)
    assert shape.kv_token_bytes == 2 * 2 * 1 * 8 * 2
    assert shape.architecture == "LightOnOCRForConditionalGeneration"


@pytest.mark.parametrize("broken", [b"", b"\xff" * 8, struct.pack("<Q", 5) + b"{", struct.pack("<Q", 2) + b"[]"])
def test_checkpoint_is_refused_when_a_header_is_damaged(tmp_path: Path, broken: bytes) -> None:
    _write(tmp_path, {})
    (tmp_path / "model.safetensors").write_bytes(broken)
    with pytest.raises(SettingsError, match=r"model\.safetensors is no whole safetensors file"):
        read_shape(tmp_path)


def test_checkpoint_is_refused_when_its_configuration_lacks_widths(tmp_path: Path) -> None:
    _write(tmp_path, {})
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SettingsError, match="lacks what a plan needs"):
        read_shape(tmp_path)


def _write(folder: Path, tensors: dict[str, object]) -> None:
    header = json.dumps(tensors).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    text = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
    configuration = {"text_config": {**text, "hidden_size": 16, "vocab_size": 64}}
    architectures = {"architectures": ["LightOnOCRForConditionalGeneration"]}
    (folder / "config.json").write_text(json.dumps({**configuration, **architectures}))
