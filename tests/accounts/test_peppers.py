from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest

from portal.accounts.peppers import Peppers
from portal.errors import SettingsError
from portal.settings import load


def _load(data_dir: Path, secret: str | None = None) -> Peppers:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PORTAL_DATA_DIR", str(data_dir))
        if secret:
            patch.setenv("PORTAL_SECRET", secret)
        return Peppers.load(load())


def _current_id(data_dir: str) -> str:
    return _load(Path(data_dir)).current.id


def test_secret_is_made_private_and_kept_when_none_is_given(tmp_path: Path) -> None:
    first = _load(tmp_path / "data")
    file = tmp_path / "data" / "secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert _load(tmp_path / "data") == first
    assert [path.name for path in file.parent.iterdir()] == ["secret"]


def test_one_secret_is_agreed_when_processes_start_at_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        ids = pool.map(_current_id, [str(tmp_path)] * 12, chunksize=1)
    assert len(set(ids)) == 1


def test_no_file_is_made_when_the_secret_is_given(tmp_path: Path) -> None:
    _load(tmp_path / "data", "s" * 32)
    assert not (tmp_path / "data").exists()


def test_old_hashes_verify_when_the_secret_is_changed(tmp_path: Path) -> None:
    old = _load(tmp_path)
    new = _load(tmp_path, "n" * 32)
    assert new.current.id != old.current.id
    assert new.find(old.current.id) == old.current
    several = _load(tmp_path / "other", "m" * 32 + " " + "n" * 32)
    assert several.find(new.current.id) == new.current
    assert several.current != new.current


def test_start_is_refused_when_the_secret_is_short(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refusal:
        _load(tmp_path, "short-secret")
    assert "short-secret" not in str(refusal.value) + refusal.value.remedy


def test_start_is_refused_when_the_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(SettingsError) as refusal:
        _load(tmp_path / "data" / "inner")
    assert str(tmp_path) not in refusal.value.message


def test_repr_shows_no_secret() -> None:
    assert "x" * 32 not in repr(Peppers.from_secrets(["x" * 32]))
