"""LightOnOCR-2-1B, all variants: a page image in, Markdown out; it takes no prompt.

Sources: the model card (huggingface.co/lightonai/LightOnOCR-2-1B: payload, 1540 px, serve flags, languages, licence,
boxes of the -bbox variants), arXiv 2601.14251; max_tokens 4096 instead of the paper's 6144 because longer answers are
repetition, as users report. With a text part it repeats that text in its answer, so none is ever sent.
"""

from __future__ import annotations

from typing import Final

from portal.domain import Mode
from portal.engine.profiles.base import Ask, ImageRule, Licence, Profile, Sampling, ServeFlag

LIGHTON: Final = Profile(
    name="lightonocr-2",
    version="1",
    title="LightOnOCR-2",
    purpose="Documents as Markdown, with tables and formulas; fast.",
    checkpoints=("lightonocr",),
    extract={Mode.DOCUMENT: Ask(None)},
    languages=("da", "de", "en", "es", "fr", "it", "ja", "nl", "pt", "sv", "zh"),
    sampling=Sampling(temperature=0.2, top_p=0.9),
    # Warmer, and what was said already is less likely: measured by nobody, but the first way has looped.
    retry_sampling=Sampling(temperature=0.6, top_p=0.9, repetition_penalty=1.1),
    # The card's scripts bring the longest side to 1540 px from either side. About 2.5 k image tokens.
    # Its processor in vLLM brings larger images to 1540 px by itself, so a 300-dpi page may come as it is.
    image=ImageRule(1540, max_pixels=1540 * 1540, form="png", enlarges=True, taken_pixels=25_000_000),
    max_tokens=4096,
    prompt_tokens=3200,
    licence=Licence("Apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
    serve_flags=(
        ServeFlag("""--limit-mm-per-prompt '{"image": 1}'""", "one page a request, so no memory is kept for more"),
        ServeFlag("--mm-processor-cache-gb 0", "no page comes twice, so a cache of images only costs memory"),
        ServeFlag("--no-enable-prefix-caching", "each prompt begins with another image: nothing to share"),
    ),
    sources=("https://huggingface.co/lightonai/LightOnOCR-2-1B", "https://arxiv.org/abs/2601.14251"),
)
