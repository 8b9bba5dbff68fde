"""An engine that reads, with a text model beside it that translates what was read.

It stands in front of an engine that cannot translate at all, or not into every language; whatever else is asked goes
to that engine unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from portal.domain import EngineCapability, PageImage, Task, TaskPrompt
from portal.engine.base import PLAIN_CALL, Call, Engine
from portal.engine.second_servers import asked_beside, of_text_model
from portal.engine.translation import TRANSLATION_VERSION, Translator
from portal.engine.versions import version
from portal.engine.vllm.client import ChatClient
from portal.languages import NAMES
from portal.page_text import PageText


class TranslatingEngine:
    """`reader` with `client`'s model for translations; closes both."""

    def __init__(self, reader: Engine, client: ChatClient) -> None:
        self.reader = reader
        self._client = client
        self._translator = Translator(client)

    @property
    def capability(self) -> EngineCapability:
        """The reader's, with translate into every language that has a name."""
        own = self.reader.capability
        return replace(
            own,
            profile_version=version(own.profile_version, self._client.model, TRANSLATION_VERSION),
            tasks=own.tasks | {Task.TRANSLATE},
            targets=tuple(NAMES),
            unavailable={task: reason for task, reason in own.unavailable.items() if task is not Task.TRANSLATE},
        )

    @property
    def slots(self) -> int:
        """The reader's."""
        return self.reader.slots

    async def start(self) -> None:
        """Starts the reader. The text model is asked for when a translation is: pages are read without it."""
        await self.reader.start()

    async def probe(self) -> None:
        """The reader's."""
        await self.reader.probe()

    async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
        """Reads one page, and translates its text where the reader cannot. Raises EngineError."""
        own = self.reader.capability
        if prompt.task is not Task.TRANSLATE or (Task.TRANSLATE in own.tasks and prompt.language in own.targets):
            return await self.reader.recognise(image, prompt, call)
        page = call.reading
        if page is None:
            page = await self.reader.recognise(image, replace(prompt, task=Task.EXTRACT, language=None), call)
        if page.is_blank or page.truncated:
            return page
        translating = self._translator.translated(page, prompt.language or "", call)
        return await asked_beside(call, page, translating, of_text_model)

    async def close(self) -> None:
        """Closes the reader and the connections to the text model."""
        await self.reader.close()
        await self._client.close()
