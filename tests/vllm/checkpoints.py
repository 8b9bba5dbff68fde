"""Makes random checkpoints in the shape of LightOnOCR: `python checkpoints.py FOLDER [tiny|mid] [seed]`.

It runs in vLLM's environment. The text they read is nonsense, but it differs from image to image and repeats exactly,
so that outputs can be compared. `tiny` is 0.6 MB, `mid` has 353 million parameters (706 MB). Names of tensors and keys
of the configuration are those that vLLM 0.32 looks for; the numbers are such that its kernels take them (a head is at
least 32 wide).
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PATCH_PX = 14
MERGE = 2
LONGEST_EDGE_PX = 280
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "<|vision_pad|>", "<|vision_end|>"]
CHAT_TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{%- if message['content'] is string %}{{ message['content'] }}{%- else %}"
    "{%- for part in message['content'] %}"
    "{%- if part['type'] in ['image', 'image_url'] %}<|image_pad|>"
    "{%- elif part['type'] == 'text' %}{{ part['text'] }}{%- endif %}{%- endfor %}{%- endif %}<|im_end|>\n"
    "{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{%- endif %}"
)


@dataclass(frozen=True)
class Size:
    """Widths and depths of the language part, then of the vision part."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head: int
    feed_forward: int
    vocabulary: int
    vision_hidden: int
    vision_layers: int
    vision_heads: int
    vision_feed_forward: int


SIZES = {
    "tiny": Size(64, 2, 4, 2, 32, 128, 1024, 64, 2, 2, 128),
    "mid": Size(1024, 16, 16, 8, 64, 3072, 32768, 768, 12, 12, 3072),
}


def make(folder: Path, size: Size, seed: int = 0) -> None:
    """Writes tokenizer, configuration and random weights. Another seed: the same headers, other weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
    for name, content in _configuration(size, ids).items():
        (folder / name).write_text(json.dumps(content, indent=1))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    weights = _Weights(seed)
    _language(weights, size, _readable(tokenizer))
    _vision(weights, size)
    save_file(weights.tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["invoice total page line text table number date " * 20], trainer)
    return tokenizer


def _configuration(size: Size, ids: dict[str, int]) -> dict[str, Any]:
    return {
        "config.json": {
            "architectures": ["LightOnOCRForConditionalGeneration"],
            "model_type": "mistral3",
            "image_token_index": ids["<|image_pad|>"],
            "projector_hidden_act": "gelu",
            "multimodal_projector_bias": False,
            "spatial_merge_size": MERGE,
            "vision_feature_layer": -1,
            "tie_word_embeddings": True,
            "dtype": "bfloat16",
            "eos_token_id": ids["<|im_end|>"],
            "text_config": _text_configuration(size, ids),
            "vision_config": _vision_configuration(size),
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "bos_token": None,
            "model_max_length": 4096,
            "clean_up_tokenization_spaces": False,
            "additional_special_tokens": SPECIAL_TOKENS[1:],
            "chat_template": CHAT_TEMPLATE,
        },
        "preprocessor_config.json": {
            "image_processor_type": "PixtralImageProcessorFast",
            "processor_class": "PixtralProcessor",
            "do_convert_rgb": True,
            "do_normalize": True,
            "do_rescale": True,
            "do_resize": True,
            "do_pad": None,
            "rescale_factor": 1 / 255,
            "image_mean": [0.48, 0.46, 0.41],
            "image_std": [0.27, 0.26, 0.28],
            "patch_size": {"height": PATCH_PX, "width": PATCH_PX},
            "size": {"longest_edge": LONGEST_EDGE_PX},
            "resample": 3,
        },
        "processor_config.json": {
            "processor_class": "PixtralProcessor",
            "image_token": "<|image_pad|>",
            "image_break_token": "<|vision_pad|>",
            "image_end_token": "<|vision_end|>",
            "patch_size": PATCH_PX,
            "spatial_merge_size": MERGE,
        },
        "generation_config.json": {"eos_token_id": ids["<|im_end|>"], "pad_token_id": ids["<|endoftext|>"]},
    }


def _text_configuration(size: Size, ids: dict[str, int]) -> dict[str, Any]:
    return {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.key_value_heads,
        "head_dim": size.head,
        "intermediate_size": size.feed_forward,
        "vocab_size": size.vocabulary,
        "max_position_embeddings": 4096,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "attention_bias": False,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "dtype": "bfloat16",
        "eos_token_id": ids["<|im_end|>"],
    }


def _vision_configuration(size: Size) -> dict[str, Any]:
    return {
        "model_type": "pixtral",
        "hidden_size": size.vision_hidden,
        "num_hidden_layers": size.vision_layers,
        "num_attention_heads": size.vision_heads,
        "head_dim": size.vision_hidden // size.vision_heads,
        "intermediate_size": size.vision_feed_forward,
        "image_size": LONGEST_EDGE_PX,
        "patch_size": PATCH_PX,
        "num_channels": 3,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "attention_dropout": 0.0,
        "dtype": "bfloat16",
    }


class _Weights:
    """Random bfloat16 tensors by name."""

    def __init__(self, seed: int) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._source = torch.Generator().manual_seed(seed)

    def random(self, name: str, *shape: int, deviation: float | None = None) -> torch.Tensor:
        """Wide enough by default that what went in decides what comes out, and not the last token alone."""
        drawn = torch.randn(*shape, generator=self._source) * (deviation or 1.6 / math.sqrt(math.prod(shape[1:])))
        self.tensors[name] = drawn.to(torch.bfloat16)
        return self.tensors[name]

    def ones(self, name: str, width: int) -> None:
        self.tensors[name] = torch.ones(width, dtype=torch.bfloat16)


def _readable(tokenizer: Tokenizer) -> list[int]:
    """Tokens that are words or signs; bytes of half a letter would be shown as nothing at all."""
    return [
        number
        for token, number in tokenizer.get_vocab().items()
        if all("!" <= sign <= "~" for sign in token[1:])
        and token not in SPECIAL_TOKENS
        and (token[0] == "Ġ" or "!" <= token[0] <= "~")
    ]


def _language(weights: _Weights, size: Size, readable: list[int]) -> None:
    root = "model.language_model."
    embedding = weights.random(f"{root}embed_tokens.weight", size.vocabulary, size.hidden, deviation=0.02)
    unreadable = torch.ones(size.vocabulary, dtype=torch.bool)
    unreadable[readable] = False
    embedding[unreadable] *= 0.1  # so that random logits choose tokens that can be read, and seldom the end
    weights.ones(f"{root}norm.weight", size.hidden)
    for number in range(size.layers):
        layer = f"{root}layers.{number}."
        weights.random(f"{layer}self_attn.q_proj.weight", size.heads * size.head, size.hidden)
        weights.random(f"{layer}self_attn.k_proj.weight", size.key_value_heads * size.head, size.hidden)
        weights.random(f"{layer}self_attn.v_proj.weight", size.key_value_heads * size.head, size.hidden)
        weights.random(f"{layer}self_attn.o_proj.weight", size.hidden, size.heads * size.head)
        weights.ones(f"{layer}self_attn.q_norm.weight", size.head)
        weights.ones(f"{layer}self_attn.k_norm.weight", size.head)
        _feed_forward(weights, f"{layer}mlp.", size.hidden, size.feed_forward)
        weights.ones(f"{layer}input_layernorm.weight", size.hidden)
        weights.ones(f"{layer}post_attention_layernorm.weight", size.hidden)


def _vision(weights: _Weights, size: Size) -> None:
    root, hidden = "model.vision_encoder.", size.vision_hidden
    weights.random(f"{root}patch_conv.weight", hidden, 3, PATCH_PX, PATCH_PX)
    weights.ones(f"{root}ln_pre.weight", hidden)
    for number in range(size.vision_layers):
        layer = f"{root}transformer.layers.{number}."
        for part in "qkvo":
            weights.random(f"{layer}attention.{part}_proj.weight", hidden, hidden)
        _feed_forward(weights, f"{layer}feed_forward.", hidden, size.vision_feed_forward)
        weights.ones(f"{layer}attention_norm.weight", hidden)
        weights.ones(f"{layer}ffn_norm.weight", hidden)
    bridge = "model.vision_projection."
    weights.ones(f"{bridge}norm.weight", hidden)
    weights.random(f"{bridge}patch_merger.merging_layer.weight", hidden, hidden * MERGE**2)
    weights.random(f"{bridge}linear_1.weight", size.hidden, hidden)
    weights.random(f"{bridge}linear_2.weight", size.hidden, size.hidden)


def _feed_forward(weights: _Weights, prefix: str, hidden: int, inner: int) -> None:
    weights.random(f"{prefix}gate_proj.weight", inner, hidden)
    weights.random(f"{prefix}up_proj.weight", inner, hidden)
    weights.random(f"{prefix}down_proj.weight", hidden, inner)


if __name__ == "__main__":
    make(Path(sys.argv[1]), SIZES[(sys.argv[2:] or ["tiny"])[0]], int((sys.argv[3:] or ["0"])[0]))
