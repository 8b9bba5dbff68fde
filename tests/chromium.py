"""Where the tests and benchmarks find a Chromium, and how they start it."""

from __future__ import annotations

import shutil

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def find_chromium() -> str | None:
    """The first Chromium on the PATH; None when there is none."""
    return next((path for path in map(shutil.which, CHROMIUM_NAMES) if path), None)
