"""A tiny random Llama in every way that weights are stored."""

import shutil

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from reference import HERE, byte_tokenizer, logits_of, prompts_of, randomise, write


def make():
    shutil.rmtree(HERE / "random", ignore_errors=True)
    config = LlamaConfig(
        vocab_size=288,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=6,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        tie_word_embeddings=False,
        bos_token_id=256,
        eos_token_id=257,
    )
    torch.manual_seed(20261129)
    model = LlamaForCausalLM(config)
    randomise(model)
    prompts = prompts_of((1, 19, 70), 288)
    for name, dtype, shard in (
        ("f32", torch.float32, "1GB"),
        ("bf16", torch.bfloat16, "1GB"),
        ("f16-sharded", torch.float16, "16KB"),
    ):
        directory = HERE / "random" / name
        model.to(dtype).save_pretrained(directory, max_shard_size=shard)
        model.to(torch.float32)
        byte_tokenizer().save(str(directory / "tokenizer.json"))
        write(directory / "golden.json", {"models": {name: logits_of(directory, prompts)}})
