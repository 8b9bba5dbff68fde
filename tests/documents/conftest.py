"""One sandbox for the whole folder, and a way to read a file as the portal does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from portal.documents.intake import Admitted, Upload, admit
from portal.documents.rasterize import rasterize
from portal.documents.sandbox import Sandbox
from portal.domain import PageImage
from portal.settings import IntakeSettings

Admit = Callable[..., Admitted]
Draw = Callable[..., Image.Image]


@pytest.fixture(scope="session")
def limits() -> IntakeSettings:
    return IntakeSettings(
        max_file_bytes=20 * 2**20,
        max_document_pages=50,
        sandbox_seconds=20,
        sandbox_memory_bytes=2**30,
    )


@pytest.fixture(scope="session")
def sandbox(limits: IntakeSettings) -> Iterator[Sandbox]:
    children = Sandbox(limits)
    yield children
    children.close()


@pytest.fixture
def take(sandbox: Sandbox, limits: IntakeSettings, tmp_path: Path) -> Admit:
    """Admits bytes (or a file) under a name."""

    def admitted(content: bytes | Path, file_name: str = "scan.bin") -> Admitted:
        path = content if isinstance(content, Path) else tmp_path / "upload"
        if isinstance(content, bytes):
            path.write_bytes(content)
        return admit(Upload(file_name, path), sandbox, limits, owner="acme")

    return admitted


@pytest.fixture
def render(take: Admit, sandbox: Sandbox, tmp_path: Path) -> Callable[..., PageImage]:
    """Admits bytes (or a file) and renders page `number`."""

    def rendered(content: bytes | Path, number: int = 1) -> PageImage:
        media_type = take(content).inspection.media_type
        source = content if isinstance(content, Path) else tmp_path / "upload"
        return rasterize(sandbox, source, media_type, number, tmp_path / f"{number:04d}.png")

    return rendered


@pytest.fixture
def draw(render: Callable[..., PageImage]) -> Draw:
    """Admits bytes (or a file), renders page `number` and opens the picture."""

    def drawn(content: bytes | Path, number: int = 1) -> Image.Image:
        page = render(content, number)
        with Image.open(page.path, formats=["PNG"]) as image:
            image.load()
        assert image.mode == "RGB"
        assert image.size == (page.width_px, page.height_px)
        return image

    return drawn
