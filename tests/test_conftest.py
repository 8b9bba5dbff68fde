"""The test suite itself: a clone alone, without the shared scans beside it, passes with no skip allowed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_portal import ROOT

_TESTS = """
import pytest

@pytest.fixture
def scan(shared_cases):
    return shared_cases / "scan.png"

def test_direct(shared_cases): assert shared_cases.is_dir()
def test_indirect(scan): assert scan.parent.is_dir()
def test_other(): pass
"""


@pytest.mark.parametrize(("has_scans", "counted"), [(False, "1 passed, 2 deselected"), (True, "3 passed")])
def test_tests_of_shared_scans_are_left_out_when_there_are_none(tmp_path: Path, has_scans: bool, counted: str) -> None:
    clone = tmp_path / "clone"
    (clone / "tests").mkdir(parents=True)
    for name in ("__init__.py", "chromium.py", "conftest.py", "running_portal.py"):
        shutil.copy(ROOT / "tests" / name, clone / "tests")
    for name in ("portal", "models", "pyproject.toml"):
        (clone / name).symlink_to(ROOT / name)
    (clone / "tests" / "test_scans.py").write_text(_TESTS)
    if has_scans:
        (tmp_path / "shared" / "cases").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=clone,
        env={**os.environ, "FAIL_ON_SKIP": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert counted in done.stdout
    assert ("2 tests that read them are left out" in done.stdout) is not has_scans
