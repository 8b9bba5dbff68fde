"""HunyuanOCR 1.0 and 1.5: fixed prompts, one for each task.

Sources: the repository (github.com/Tencent-Hunyuan/HunyuanOCR: README of 1.0 for its prompts and messages,
inference/utils/tasks.py for those of 1.5, inference/vLLM/infer_vllm_client.py for sampling), the model card
(huggingface.co/tencent/HunyuanOCR; 1.0 lies in its subfolder v1.0) and vLLM's recipe for the serve flags. The prompts
are verbatim and the Chinese ones, which the authors recommend: others lose accuracy. Image tokens: one for each
32 × 32 pixels, so a page at the default of 4096 × 4096 would take 16 k of them (a 300-dpi page asked for 165 GiB);
4.2 million pixels are a page at 200 dpi. Licence: it does not hold in the EU, the UK and South Korea, hosted services
for people there included, and wants the notice below to be shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from portal.domain import Mode
from portal.engine.profiles.base import AnswerForm, Ask, ImageRule, Licence, Profile, Sampling, ServeFlag

_DOCUMENT = (
    "提取文档图片中正文的所有信息用markdown格式表示，其中页眉、页脚部分忽略，"
    "表格用html格式表达，文档中公式用latex格式表示，按照阅读顺序组织进行解析。"
)
_SPOTTING_JSON = (
    "检测并识别图中所有的文字行，请按从上到下、从左到右的阅读顺序进行识别。 "
    "输出格式为 JSON 数组，每个元素必须包含："
    '"box": [xmin, ymin, xmax, ymax]（坐标需归一化到 [0, 1000] 范围内）；'
    '"text": "识别出的文字内容"。 '
    "注意：请直接输出 JSON 数组，不要包含任何多余的描述性文字。"
)
_TRANSLATE = (
    "先提取文字，再将文字内容翻译为{}。若是文档，则其中页眉、页脚忽略。公式用latex格式表示，表格用html格式表示。"
)
_TRANSLATE_1_5 = "按照阅读顺序，提取图中文字，公式用latex格式表示，表格用markdown格式表示，再将文字内容翻译为{}。"

# Languages of its translations and prompts, by the README; it reads a hundred, of which it names these.
_LANGUAGES = ("ar", "de", "en", "es", "fr", "id", "it", "ja", "ko", "ms", "pt", "ru", "th", "tr", "vi", "zh")

_LICENCE = Licence(
    name="Tencent Hunyuan Community License",
    url="https://huggingface.co/tencent/HunyuanOCR/blob/main/LICENSE",
    code="tencent-hunyuan-community",
    limits="It excludes the European Union, the United Kingdom and South Korea, also as a hosted service.",
    notice=(
        "Tencent Hunyuan is licensed under the Tencent Hunyuan Community License Agreement, Copyright © 2025 Tencent. "
        "All Rights Reserved. Tencent is not affiliated with, associated with, sponsoring or endorsing this service."
    ),
)
_FLAGS = (
    ServeFlag("--no-enable-prefix-caching", "each prompt begins with another image: nothing to share"),
    ServeFlag("--mm-processor-cache-gb 0", "no page comes twice, so a cache of images only costs memory"),
)

HUNYUAN_1_0: Final = Profile(
    name="hunyuanocr-1.0",
    version="1",
    title="HunyuanOCR 1.0",
    purpose="Documents, lines with boxes, subtitles; translates into Chinese and English.",
    checkpoints=("hunyuanocr-1.0", "hunyuanocr-v1.0", "hunyuanocr/v1.0"),
    extract={
        Mode.DOCUMENT: Ask(_DOCUMENT),
        Mode.TEXT: Ask("提取图中的文字。", AnswerForm.TEXT),
        Mode.SPOTTING: Ask("检测并识别图片中的文字，将文本坐标格式化输出。", AnswerForm.SPOTTING),
        Mode.SUBTITLES: Ask("提取图片中的字幕。", AnswerForm.TEXT),
    },
    translate={"en": Ask(_TRANSLATE.format("英文")), "zh": Ask(_TRANSLATE.format("中文"))},
    fields="提取图片中的: {keys} 的字段内容，并按照 JSON 格式返回。",
    languages=_LANGUAGES,
    system="",
    sampling=Sampling(temperature=0.0, top_p=0.95, top_k=1, repetition_penalty=1.0, seed=1234),
    # Its greedy way has looped; top_k 1 would choose the same tokens whatever the temperature.
    retry_sampling=Sampling(temperature=0.3, top_p=0.95, top_k=-1, repetition_penalty=1.08, seed=1234),
    image=ImageRule(longest_side_px=2560, max_pixels=4_200_000, form="jpeg"),
    max_tokens=16384,
    prompt_tokens=4608,
    licence=_LICENCE,
    serve_flags=_FLAGS,
    sources=(
        "https://huggingface.co/tencent/HunyuanOCR/tree/main/v1.0",
        "https://docs.vllm.ai/projects/recipes/en/latest/Tencent-Hunyuan/HunyuanOCR.html",
    ),
)

HUNYUAN_1_5: Final = replace(
    HUNYUAN_1_0,
    name="hunyuanocr-1.5",
    title="HunyuanOCR 1.5",
    purpose="Documents and lines with boxes; translates into Chinese and English.",
    checkpoints=("hunyuanocr",),
    extract={
        Mode.DOCUMENT: Ask(_DOCUMENT),
        Mode.TEXT: Ask("提取图中的文字。", AnswerForm.TEXT),
        Mode.SPOTTING: Ask(_SPOTTING_JSON, AnswerForm.SPOTTING_JSON),
    },
    translate={"en": Ask(_TRANSLATE_1_5.format("英文")), "zh": Ask(_TRANSLATE_1_5.format("中文"))},
    fields=None,
    sampling=Sampling(temperature=0.0, top_p=1.0, top_k=-1, repetition_penalty=1.08),
    retry_sampling=Sampling(temperature=0.3, top_p=0.95, top_k=-1, repetition_penalty=1.15),
    extra={"skip_special_tokens": True},
    serve_flags=(*_FLAGS, ServeFlag("--max-model-len 32768", "its default of 131072 keeps memory that no page needs")),
    sources=(
        "https://huggingface.co/tencent/HunyuanOCR",
        "https://github.com/Tencent-Hunyuan/HunyuanOCR/tree/main/inference",
    ),
)
