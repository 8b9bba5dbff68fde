"""Fields picked by an engine of another kind than vLLM: it reads the page for itself, and only its values are taken."""

from __future__ import annotations

from dataclasses import replace

from portal.domain import Mode, PageImage, TaskPrompt
from portal.engine.base import Call, Engine
from portal.engine.fields.text_rows import without_places
from portal.page_text import PageText


async def fields_of(other: Engine, image: PageImage, page: PageText, prompt: TaskPrompt, call: Call) -> PageText:
    """`page` with the fields that `other` finds on the image.

    Their boxes are kept where both see the page the same way up; else they would point somewhere else. Raises as
    `other` does.
    """
    seen = await other.recognise(image, replace(prompt, mode=Mode.DOCUMENT), call)
    values = seen.fields or ()
    if (seen.width_px, seen.height_px, seen.rotation_degrees) == (page.width_px, page.height_px, page.rotation_degrees):
        return replace(page, fields=values)
    return replace(page, fields=tuple(without_places(value) for value in values))
