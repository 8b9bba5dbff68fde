"""A fleet runs only in a folder that is its owner's alone, and says what hinders it when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from portal.errors import SettingsError
from portal.serving import run_folder
from portal.serving.configuration import FleetConfiguration


def _fleet(run_dir: Path) -> FleetConfiguration:
    return FleetConfiguration(checkpoint=Path("/c"), served_name="o", vllm_python=Path("/v/python"), run_dir=run_dir)


def _refusal(run_dir: Path) -> SettingsError:
    with pytest.raises(SettingsError) as refused, run_folder.held(_fleet(run_dir)):
        pass
    return refused.value


def test_folder_is_made_for_its_owner_alone_and_held_by_one(tmp_path: Path) -> None:
    run_dir = tmp_path / "a" / "run"
    with run_folder.held(_fleet(run_dir)):
        assert [folder.stat().st_mode & 0o777 for folder in (run_dir, run_dir / "store")] == [0o700, 0o700]
        assert "Another fleet runs in" in _refusal(run_dir).message
    with run_folder.held(_fleet(run_dir)):
        pass


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o1777, 0o1700])
def test_folder_is_refused_and_left_as_it_is_when_others_may_use_it(tmp_path: Path, mode: int) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    run_dir.chmod(mode)
    refused = _refusal(run_dir)
    assert refused.message.startswith(f"run_dir: {run_dir} is ")
    assert refused.remedy
    assert run_dir.stat().st_mode & 0o7777 == mode
    assert list(run_dir.iterdir()) == []


def test_folder_is_refused_when_it_is_another_users(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir(mode=0o700)
    if os.geteuid() != 0:
        run_dir = Path("/")  # only root can give one away
    else:
        os.chown(run_dir, 65534, 65534)
    assert f"not to uid {os.geteuid()}" in _refusal(run_dir).message


def test_folder_is_refused_when_it_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be made: Not a directory" in _refusal(tmp_path / "file" / "run").message
    assert "cannot be made: File exists" in _refusal(tmp_path / "file").message
    assert "cannot be made" in _refusal(Path("/proc/run")).message


def test_path_is_refused_when_a_socket_in_it_would_be_too_long(tmp_path: Path) -> None:
    run_dir = tmp_path / ("r" * 79)
    refused = _refusal(run_dir)
    assert "too long for a socket" in refused.message
    assert refused.remedy == f"Name a folder that is {len(os.fsencode(run_dir)) - 79} bytes shorter."
    assert not run_dir.exists()
