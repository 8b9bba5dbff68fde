"""The engine over one vLLM server (or a router in front of several): a page in, by its profile's rules, a PageText out.

A page whose text loops is read once more with other sampling, or on the engine named as fallback; whatever comes
last counts. It does not try again for any other reason.
"""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from PIL import Image

from portal.domain import EngineCapability, Mode, PageImage, Task, TaskPrompt
from portal.engine.answers import clean_markdown, page_text
from portal.engine.answers.originals import without_original
from portal.engine.base import PLAIN_CALL, Call, Engine
from portal.engine.fields.answers import from_answer
from portal.engine.fields.matcher import from_page
from portal.engine.profiles.base import AnswerForm, Ask, Profile, Sampling
from portal.engine.second_servers import SecondServerError, asked_beside, of_picker
from portal.engine.translation import TRANSLATION_VERSION, Translator
from portal.engine.versions import version
from portal.engine.vllm import request
from portal.engine.vllm.client import Answer, ChatClient
from portal.engine.vllm.field_picking import fields_of
from portal.engine.vllm.field_request import fields_body, prompt_tokens
from portal.engine.vllm.images import SentImage, sent_image
from portal.engine.vllm.options import VllmOptions
from portal.errors import EngineError, TaskUnavailable
from portal.page_text import PageText, Translation

Result = TypeVar("Result")

log = structlog.get_logger()

_THREADS = 2
_FIELD_THREADS = 2
_FEWEST_TOKENS = 256


class VllmEngine:
    """One checkpoint on one URL.

    `fallback` is another engine that reads a page which loops here, `picker` one that picks the fields of a page that
    was read here.
    """

    def __init__(self, options: VllmOptions) -> None:
        self.options = options
        self.slots = options.slots
        self.alone = capability_of(options)
        self.fallback: Engine | None = None
        self.picker: Engine | None = None
        self.client = ChatClient(options.name, options.server)
        self._context = options.profile.prompt_tokens + options.profile.max_tokens
        self._max_tokens = options.profile.max_tokens
        self._translator = Translator(self.client) if options.profile.writes_to_order else None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="vllm-page")
        # Threads of their own: what was asked makes fields costly, and pages without fields do not wait for that.
        self._field_threads = ThreadPoolExecutor(_FIELD_THREADS, thread_name_prefix="vllm-fields")

    @property
    def capability(self) -> EngineCapability:
        """What it can do; the version is of the engines that help it, too."""
        if self.fallback is None and self.picker is None:
            return self.alone
        helpers = (_alone(self.fallback), _alone(self.picker))
        return replace(self.alone, profile_version=version(self.alone.profile_version, *helpers))

    @property
    def max_tokens(self) -> int:
        """The longest answer: the profile's, or what the server's context leaves beside a page."""
        return self._max_tokens

    async def start(self) -> None:
        """Looks whether the model is served, and sends it an image: the first one takes long, and must be taken.

        Raises EngineError saying what is wrong: away, a wrong key, another model, no images, too small a context.
        """
        card = await self.client.model_card()
        context = card.get("max_model_len")
        self._context = context if isinstance(context, int) else self._context
        self._max_tokens = self._fitting(self._context)
        ask = self.options.profile.extract[Mode.DOCUMENT]
        await self.client.ask(
            {**self._body(ask, _probe_url(), self._sampling, PLAIN_CALL), "max_tokens": 1}, PLAIN_CALL
        )

    async def probe(self) -> None:
        """Whether the model is served now. Raises EngineError."""
        await self.client.model_card()

    async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
        """Reads one page; translation and fields are another request, made when there is text. Raises EngineError."""
        if prompt.task not in self.capability.tasks:
            raise TaskUnavailable(self.capability.unavailable.get(prompt.task, "This engine does not offer it."))
        sent = await self._sent(image)
        if prompt.task is Task.FIELDS:
            return await self._with_fields(image, sent, prompt, call)
        page = await self._read(image, sent, prompt, call)
        if prompt.task is not Task.TRANSLATE or page.is_blank or page.truncated:
            return page
        return await self._translated(page, sent, prompt.language or "", call)

    async def close(self) -> None:
        """Closes connections and threads; calls under way fail with a retryable EngineError."""
        await self.client.close()
        self._threads.shutdown(wait=False)
        self._field_threads.shutdown(wait=False)

    async def read_once(
        self, image: PageImage, sent: SentImage, prompt: TaskPrompt, call: Call, sampling: Sampling
    ) -> PageText:
        """One request and no other, whatever comes of it."""
        ask = self.options.profile.extract[prompt.mode]
        answer = await self._asked(ask, sent.url, sampling, call)
        # In a thread: an answer may be long, and strange.
        return await self._in_thread(_page_of, answer, ask.answer, image)

    async def _read(self, image: PageImage, sent: SentImage, prompt: TaskPrompt, call: Call) -> PageText:
        page = await self.read_once(image, sent, prompt, call, self._sampling)
        if page.truncated == "repetition":
            return await self._read_again(image, sent, prompt, call)
        if page.is_blank and not page.figures and sent.has_ink:
            # A checkpoint that says nothing of a page with ink may only have ended too soon; twice is an answer.
            return await self.read_once(image, sent, prompt, call, self.options.profile.retry_sampling)
        return page

    async def _read_again(self, image: PageImage, sent: SentImage, prompt: TaskPrompt, call: Call) -> PageText:
        other = self.fallback
        if other is not None and prompt.mode in other.capability.modes:
            try:
                return await _read_by(other, image, prompt, call)
            except EngineError as failure:  # it is there to help: without it this engine helps itself
                log.warning("fallback failed", engine=self.options.name, reason=failure.message, code=failure.code)
        return await self.read_once(image, sent, prompt, call, self.options.profile.retry_sampling)

    async def _with_fields(self, image: PageImage, sent: SentImage, prompt: TaskPrompt, call: Call) -> PageText:
        mode = self.options.profile.mode_for_fields
        page = call.reading
        if page is None:
            page = await self._read(image, sent, replace(prompt, task=Task.EXTRACT, mode=mode), call)
        if page.is_blank or page.truncated:
            return await self._labelled(page, prompt)
        if self.picker is not None:
            return await self._picked_by(self.picker, image, page, prompt, call)
        if not self.options.profile.picks_fields:
            return await self._labelled(page, prompt)
        return await self.pick_fields(sent, page, prompt, call)

    async def _picked_by(
        self, other: Engine, image: PageImage, page: PageText, prompt: TaskPrompt, call: Call
    ) -> PageText:
        def named(failure: EngineError) -> SecondServerError:
            return of_picker(failure, self.options.name, other.capability.name)

        return await asked_beside(call, page, _fields_by(other, image, page, prompt, call), named)

    async def pick_fields(self, sent: SentImage, page: PageText, prompt: TaskPrompt, call: Call) -> PageText:
        """`page` with the fields that the model picks from the image, each looked up on the page. Raises EngineError.

        An answer that was cut marks the page as truncated: it may lack what came after.
        """
        answer = await self._picked(sent, prompt, call, self._sampling)
        if answer.truncated == "repetition":
            answer = await self._picked(sent, prompt, call, self.options.profile.retry_sampling)
        values = await self._run(self._field_threads, from_answer, answer.text, page, prompt.fields)
        return replace(page, fields=values, truncated=answer.truncated)

    async def _picked(self, sent: SentImage, prompt: TaskPrompt, call: Call, sampling: Sampling) -> Answer:
        profile = self.options.profile
        body = fields_body(profile, self.client.model, prompt.fields, sent.url, sampling=sampling, call=call)
        left = self._context - profile.prompt_tokens - prompt_tokens(profile, prompt.fields)
        room = min(self._max_tokens, max(_FEWEST_TOKENS, left))
        return await self.client.ask({**body, "max_tokens": room}, call)

    async def _labelled(self, page: PageText, prompt: TaskPrompt) -> PageText:
        return replace(page, fields=await self._run(self._field_threads, from_page, page, prompt.fields))

    async def _translated(self, page: PageText, sent: SentImage, language: str, call: Call) -> PageText:
        if self._translator is not None:
            return await self._translator.translated(page, language, call)
        ask = self.options.profile.translate[language]
        answer = await self._asked(ask, sent.url, self._sampling, call)
        if answer.truncated == "repetition":
            answer = await self._asked(ask, sent.url, self.options.profile.retry_sampling, call)
        said = await self._in_thread(clean_markdown, answer.text)
        translation = Translation(language, without_original(said, page.markdown))
        return replace(page, translation=translation, truncated=answer.truncated)

    async def _asked(self, ask: Ask, url: str, sampling: Sampling, call: Call) -> Answer:
        body = self._body(ask, url, sampling, call)
        return await self.client.ask(request.with_scores(body) if self.options.asks_scores else body, call)

    def _body(self, ask: Ask, url: str, sampling: Sampling, call: Call) -> dict[str, Any]:
        body = request.page_body(self.options.profile, self.client.model, ask, url, sampling=sampling, call=call)
        return {**body, "max_tokens": self._max_tokens}

    @property
    def _sampling(self) -> Sampling:
        return self.options.profile.sampling

    async def _sent(self, image: PageImage) -> SentImage:
        return await self._in_thread(sent_image, image, self.options.profile.image)

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await self._run(self._threads, work, *arguments)

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[..., Result], *arguments: Any) -> Result:
        try:
            working = asyncio.get_running_loop().run_in_executor(threads, work, *arguments)
        except RuntimeError as error:  # the threads were shut down
            raise EngineError("The portal was stopping; the page was not read.", is_permanent=False) from error
        return await working

    def _fitting(self, context: int) -> int:
        """The longest answer that fits the server's context beside a page. Raises EngineError when none does."""
        profile = self.options.profile
        left = context - profile.prompt_tokens
        if left < _FEWEST_TOKENS:
            raise EngineError(
                f"{self.client.name} takes {context} tokens at once, too few for a page.",
                is_permanent=True,
                code="engine_context_too_long",
                remedy=f"Start vLLM with --max-model-len {profile.prompt_tokens + profile.max_tokens}.",
            )
        return min(profile.max_tokens, left)


async def _read_by(other: Engine, image: PageImage, prompt: TaskPrompt, call: Call) -> PageText:
    """The page as the fallback reads it, asked once."""
    if isinstance(other, VllmEngine):
        return await other.read_once(image, await other._sent(image), prompt, call, other._sampling)
    return await other.recognise(image, replace(prompt, task=Task.EXTRACT), call)


async def _fields_by(other: Engine, image: PageImage, page: PageText, prompt: TaskPrompt, call: Call) -> PageText:
    """`page` with the fields that the picker finds on it."""
    if isinstance(other, VllmEngine):
        return await other.pick_fields(await other._sent(image), page, prompt, call)
    return await fields_of(other, image, page, prompt, call)


def _alone(helper: Engine | None) -> EngineCapability | None:
    """A helper's, without those that help it in turn: they are not asked."""
    if isinstance(helper, VllmEngine):
        return helper.alone
    return None if helper is None else helper.capability


def _page_of(answer: Answer, form: AnswerForm, image: PageImage) -> PageText:
    return page_text(answer.text, form, image, marks=answer.marks, truncated=answer.truncated)


def capability_of(options: VllmOptions) -> EngineCapability:
    """What the engine can do, by its profile."""
    profile = options.profile
    return EngineCapability(
        name=options.name,
        checkpoint=options.server.model,
        profile_version=_version(options),
        tasks=profile.tasks,
        languages=profile.languages,
        unavailable=_unavailable(profile),
        modes=profile.modes,
        targets=profile.targets,
        purpose=profile.purpose,
        licence=profile.licence.name,
        notice=profile.licence.notice,
        is_remote=True,
    )


def _version(options: VllmOptions) -> str:
    profile = options.profile
    translates = TRANSLATION_VERSION if profile.writes_to_order else ""
    return version(f"{profile.name}/{profile.version}", options.server.model, options.asks_scores, translates)


def _unavailable(profile: Profile) -> dict[Task, str]:
    reasons = {
        Task.TRANSLATE: f"{profile.title} reads text but cannot translate: that needs a text model beside it.",
    }
    return {task: reason for task, reason in reasons.items() if task not in profile.tasks}


def _probe_url() -> str:
    stream = io.BytesIO()
    Image.new("RGB", (224, 224), "white").save(stream, "PNG")
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
