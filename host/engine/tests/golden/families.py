"""A tiny random model of each architecture, each with what sets it apart: windows shorter than the prompts, scaled
rotations that reach every branch, biases, norms of heads, soft caps. Two have the widths of quantised kernels."""

import shutil

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from reference import HERE, byte_tokenizer, logits_of, prompts_of, randomise, write

VOCABULARY = 96
NARROW = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 94,
    "eos_token_id": 95,
}
WIDE = {**NARROW, "hidden_size": 32, "intermediate_size": 64, "head_dim": 16}
THETA = {"rope_theta": 500.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    **THETA,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, **THETA}
GEMMA3_ROPES = {
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0},
    "sliding_attention": {"rope_type": "default", **THETA},
}
# Name, config and weights. Gemma stores the weights of norms as their distance from 1.
AROUND_ONE, AROUND_ZERO = (0.5, 1.5), (-0.5, 0.5)
MODELS = {
    "llama3": (
        LlamaForCausalLM,
        LlamaConfig(**NARROW, rope_parameters=LLAMA3, attention_bias=True),
        AROUND_ONE,
    ),
    "mistral": (
        MistralForCausalLM,
        MistralConfig(**NARROW, rope_parameters=dict(THETA), sliding_window=9, tie_word_embeddings=True),
        AROUND_ONE,
    ),
    "qwen2": (
        Qwen2ForCausalLM,
        Qwen2Config(
            **{key: value for key, value in WIDE.items() if key != "head_dim"},
            rope_parameters=dict(THETA),
            use_sliding_window=True,
            sliding_window=7,
            max_window_layers=1,
            tie_word_embeddings=True,
        ),
        AROUND_ONE,
    ),
    "qwen3": (
        Qwen3ForCausalLM,
        Qwen3Config(**WIDE, rope_parameters=YARN, tie_word_embeddings=True),
        AROUND_ONE,
    ),
    "gemma2": (
        Gemma2ForCausalLM,
        Gemma2Config(
            **NARROW,
            rope_parameters=dict(THETA),
            sliding_window=6,
            query_pre_attn_scalar=12,
            attn_logit_softcapping=4.0,
            final_logit_softcapping=20.0,
        ),
        AROUND_ZERO,
    ),
    "gemma3": (
        Gemma3ForCausalLM,
        Gemma3TextConfig(
            **{**NARROW, "num_hidden_layers": 3},
            rope_parameters=GEMMA3_ROPES,
            sliding_window=8,
            sliding_window_pattern=3,
            query_pre_attn_scalar=12,
        ),
        AROUND_ZERO,
    ),
}


def make():
    shutil.rmtree(HERE / "families", ignore_errors=True)
    prompts = prompts_of((1, 19, 70), VOCABULARY)
    for name, (architecture, config, norms) in MODELS.items():
        directory = HERE / "families" / name
        torch.manual_seed(20261129)
        model = architecture(config)
        randomise(model, norms)
        model.to(torch.bfloat16).save_pretrained(directory)
        byte_tokenizer(94).save(str(directory / "tokenizer.json"))
        write(directory / "golden.json", {"models": {name: logits_of(directory, prompts)}})
