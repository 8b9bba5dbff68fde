"""Random tiny checkpoints of other architectures, by transformers' own classes: `other_checkpoints.py FOLDER NAME`.

NAME is `qwen2.5-vl` or `hunyuan-vl` (HunyuanOCR's architecture). In vLLM's environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

QWEN_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
HUNYUAN_TOKENS = ["<pad>", "<bos>", "<eos>", "<img>", "<im_s>", "<im_e>", "<im_nl>", "<user>", "<asst>"]
QWEN_TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message['role'] }}\n{%- for part in message['content'] %}"
    "{%- if part['type'] in ['image', 'image_url'] %}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- elif part['type'] == 'text' %}{{ part['text'] }}{%- endif %}{%- endfor %}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{%- endif %}"
)
HUNYUAN_TEMPLATE = (
    "{%- for message in messages %}<user>{%- for part in message['content'] %}"
    "{%- if part['type'] in ['image', 'image_url'] %}<im_s><img><im_e>"
    "{%- elif part['type'] == 'text' %}{{ part['text'] }}{%- endif %}{%- endfor %}{%- endfor %}"
    "{%- if add_generation_prompt %}<asst>{%- endif %}"
)


def make_qwen(folder: Path) -> None:
    """Qwen2.5-VL, two layers each."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    ids = _tokenizer(folder, QWEN_TOKENS)
    _write(folder, "tokenizer_config.json", {**_tokens("Qwen2Tokenizer", "<|im_end|>", "<|endoftext|>", QWEN_TEMPLATE)})
    image = {"image_processor_type": "Qwen2VLImageProcessorFast", "processor_class": "Qwen2_5_VLProcessor"}
    sizes = {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
    pixels = {"min_pixels": 56 * 56, "max_pixels": 280 * 280, "size": {"shortest_edge": 3136, "longest_edge": 78400}}
    _write(folder, "preprocessor_config.json", {**image, **sizes, **pixels})
    text = {
        "vocab_size": 1024,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6]},
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "tie_word_embeddings": True,
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "out_hidden_size": 128,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [1],
    }
    configuration = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    configuration.architectures = ["Qwen2_5_VLForConditionalGeneration"]
    _save(Qwen2_5_VLForConditionalGeneration(configuration), folder)


def make_hunyuan(folder: Path) -> None:
    """HunyuanOCR's architecture, two layers each."""
    from transformers import HunYuanVLConfig, HunYuanVLForConditionalGeneration

    ids = _tokenizer(folder, HUNYUAN_TOKENS)
    special = {"image_token": "<img>", "image_start_token": "<im_s>", "image_end_token": "<im_e>"}
    kept = _tokens("PreTrainedTokenizerFast", "<eos>", "<pad>", HUNYUAN_TEMPLATE)
    _write(folder, "tokenizer_config.json", {**kept, "bos_token": "<bos>", "extra_special_tokens": special})
    image = {"image_processor_type": "HunYuanVLImageProcessor", "processor_class": "HunYuanVLProcessor"}
    sizes = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 1}
    _write(
        folder,
        "preprocessor_config.json",
        {**image, **sizes, "size": {"shortest_edge": 128 * 128, "longest_edge": 256 * 256}},
    )
    _write(folder, "processor_config.json", {"processor_class": "HunYuanVLProcessor", "cat_extra_token": True})
    rope = {
        "rope_type": "dynamic",
        "rope_theta": 10000.0,
        "alpha": 1000.0,
        "factor": 1.0,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "mrope_section": [4, 4, 4, 4],
    }
    text = {
        "vocab_size": 512,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 4096,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "eod_token_id": 2,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "rope_parameters": rope,
    }
    vision = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "out_hidden_size": 128,
        "text_hidden_size": 128,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "max_image_size": 512,
        "min_image_size": 64,
        "img_max_token_num": 256,
    }
    configuration = HunYuanVLConfig(
        image_token_id=ids["<img>"],
        im_start_id=ids["<im_s>"],
        im_end_id=ids["<im_e>"],
        im_newline_id=ids["<im_nl>"],
        tie_word_embeddings=True,
        text_config=text,
        vision_config=vision,
    )
    configuration.architectures = ["HunYuanVLForConditionalGeneration"]
    _save(HunYuanVLForConditionalGeneration(configuration), folder)


def _tokenizer(folder: Path, special: list[str]) -> dict[str, int]:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["invoice total page line text table number date " * 20], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]
    _write(folder, "vocab.json", vocabulary["vocab"])
    merges = "\n".join(" ".join(pair) for pair in vocabulary["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    return {token: tokenizer.token_to_id(token) for token in special}


def _tokens(kind: str, end: str, pad: str, template: str) -> dict[str, Any]:
    return {
        "tokenizer_class": kind,
        "eos_token": end,
        "pad_token": pad,
        "model_max_length": 4096,
        "chat_template": template,
    }


def _save(model: Any, folder: Path) -> None:
    model.to(torch.bfloat16).save_pretrained(folder)


def _write(folder: Path, name: str, content: object) -> None:
    (folder / name).write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    torch.manual_seed(0)
    {"qwen2.5-vl": make_qwen, "hunyuan-vl": make_hunyuan}[sys.argv[2]](Path(sys.argv[1]))
