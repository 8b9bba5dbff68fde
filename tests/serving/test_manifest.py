"""An instance takes only weights that are its own, and says on which side what differs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from portal.serving.shared_weights import checkpoints
from portal.serving.shared_weights.faults import SharedWeightsError
from portal.serving.shared_weights.manifest import Manifest, refuse_difference
from tests.serving.fake_loader import manifest


def test_manifest_survives_json() -> None:
    made = manifest()
    assert Manifest.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_both_sides_are_named_when_identities_differ() -> None:
    with pytest.raises(
        SharedWeightsError, match="dtype: store bfloat16, instance float16; vLLM: store 1, instance None"
    ):
        refuse_difference({"dtype": "bfloat16", "vLLM": "1"}, {"dtype": "float16"})


@pytest.mark.parametrize(
    "broken",
    [
        {"format": 2},
        {"tensors": [{}]},
        {"total_bytes": 3},
        {"checkpoint": None},
        {"ties": 1},
    ],
)
def test_manifest_is_refused_when_it_is_of_another_format_or_malformed(broken: dict[str, object]) -> None:
    with pytest.raises(SharedWeightsError, match=r"store speaks format 2|malformed"):
        Manifest.from_json({**manifest().to_json(), **broken})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files; what is in them does not matter here."""
    made = tmp_path / "checkpoint"
    made.mkdir()
    (made / "model-1.safetensors").write_bytes(b"header" + b"\1" * 1000)
    (made / "model-2.safetensors").write_bytes(b"header" + b"\2" * 1000)
    return made


def test_copy_is_accepted_when_contents_are_equal(folder: Path, tmp_path: Path) -> None:
    stored = checkpoints.described(folder)
    checkpoints.refuse_other_contents(stored, folder)
    checkpoints.refuse_other_contents(stored, Path(shutil.copytree(folder, tmp_path / "copy")))


def test_other_weights_are_refused_when_headers_and_sizes_are_equal(folder: Path, tmp_path: Path) -> None:
    stored = checkpoints.described(folder)
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    (other / "model-2.safetensors").write_bytes(b"header" + b"\2" * 999 + b"\3")
    with pytest.raises(SharedWeightsError, match=rf"{stored.path} .*{other}"):
        checkpoints.refuse_other_contents(stored, other)


def test_change_in_place_is_refused_when_size_is_kept(folder: Path) -> None:
    stored = checkpoints.described(folder)
    (folder / "model-1.safetensors").write_bytes(b"header" + b"\4" * 1000)
    with pytest.raises(SharedWeightsError, match="contents differ"):
        checkpoints.refuse_other_contents(stored, folder)


def test_swapped_contents_are_refused(folder: Path) -> None:
    stored = checkpoints.described(folder)
    first, second = sorted(folder.iterdir())
    before = first.read_bytes(), second.read_bytes()
    first.write_bytes(before[1])
    second.write_bytes(before[0])
    with pytest.raises(SharedWeightsError, match="contents differ"):
        checkpoints.refuse_other_contents(stored, folder)


def test_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SharedWeightsError, match=r"no \*\.safetensors file"):
        checkpoints.described(tmp_path)


def test_replaced_entry_outside_of_the_segment_is_refused() -> None:
    whole = manifest()
    entry = replace(whole.tensors[0], offset=whole.total_bytes)
    with pytest.raises(SharedWeightsError, match="lies outside the segment"):
        Manifest.from_json(replace(whole, tensors=(entry,)).to_json())
