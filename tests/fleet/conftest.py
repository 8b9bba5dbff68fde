"""A fleet's real control with a scripted supervisor behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.scripted import ServedFleet, scripted_fleet


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedFleet]:
    with scripted_fleet(tmp_path / "fleet") as fleet:
        yield fleet
