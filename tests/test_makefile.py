"""`make run` on a strange machine: what it cannot use it refuses in words, and it leaves nothing half made."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_portal import ROOT

_VENV_WITHOUT_PIP = """
mkdir -p .venv/bin
printf '#!/bin/sh\\nexit 1\\n' > .venv/bin/python
chmod +x .venv/bin/python
"""
_VENV = """
mkdir -p .venv/bin
printf '#!/bin/sh\\nexit 0\\n' > .venv/bin/python
chmod +x .venv/bin/python
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile and an empty lock."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "portal.txt").touch()
    return tmp_path


def _setup(checkout: Path, *, version: str = "3, 13", venv: str = "exit 1") -> subprocess.CompletedProcess[str]:
    """`make setup` with a python of this version whose `-m venv` runs these shell lines."""
    python = checkout / "fake-python"
    python.write_text(
        f"""#!/bin/sh -e
if [ "$1" = -c ]; then
    exec {sys.executable} -c "import sys; sys.version_info = ({version}, 0, 'final', 0)
$2"
fi
{venv}
"""
    )
    python.chmod(0o755)
    command = ["make", "-C", str(checkout), f"PYTHON={python}", "setup"]
    environ = {"PATH": "/usr/bin:/bin"}  # without the flags of the `make test` around us
    return subprocess.run(command, capture_output=True, text=True, env=environ)


def test_package_is_named_and_nothing_is_left_when_venv_is_missing(checkout: Path) -> None:
    done = _setup(checkout, venv=f"{_VENV_WITHOUT_PIP} exit 1")
    assert done.returncode != 0
    assert "sudo apt-get install -y python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_setup_goes_on_when_an_earlier_try_left_no_pip(checkout: Path) -> None:
    subprocess.run(["sh", "-ec", _VENV_WITHOUT_PIP], cwd=checkout, check=True)
    done = _setup(checkout, venv=_VENV)
    assert done.returncode == 0, done.stderr
    assert (checkout / ".venv" / ".portal").is_file()


@pytest.mark.parametrize("version", ["3, 10", "3, 14"])
def test_python_is_refused_in_words_when_it_is_too_old_or_too_new(checkout: Path, version: str) -> None:
    done = _setup(checkout, version=version, venv=_VENV)
    assert done.returncode != 0
    assert f"this is {version.replace(', ', '.')}" in done.stderr
    assert "make PYTHON=python3.13 run" in done.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("version", ["3, 11", "3, 13"])
def test_python_is_taken_when_it_is_neither(checkout: Path, version: str) -> None:
    assert _setup(checkout, version=version, venv=_VENV).returncode == 0
