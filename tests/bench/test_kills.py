"""A portal that is killed in the midst of its work, three times: its books agree, and nothing stays reserved."""

from __future__ import annotations

from pathlib import Path

from bench import kills


def test_books_agree_when_the_portal_was_killed_in_mid_work(tmp_path: Path) -> None:
    outcome = kills.run(tmp_path / "data", rounds=3)
    assert outcome.faults == ()
    assert outcome.strays == 0, "nothing was left for the sweep"
    assert outcome.jobs > 0
    assert outcome.charged <= outcome.pages_read + outcome.reserved
