"""Tiny random models as GGUF files, written as the llama.cpp converters write them: rows of queries and keys paired for
llama, Llama 3's scaling as a tensor, the offset of Gemma's norms folded in. Logits are of the weights as stored."""

import shutil

import gguf
import torch
from gguf.quants import dequantize, quantize
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from families import AROUND_ONE, AROUND_ZERO, GEMMA3_ROPES, LLAMA3, NARROW, THETA, VOCABULARY, WIDE
from reference import HERE, byte_tokenizer, prompts_of, randomise, runs_of, write

F16, Q8_0 = gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.Q8_0


def paired(config, name, weight):
    """Of every head, first and second halves become neighbours."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((count for part, count in heads.items() if part in name), None)
    if count is None:
        return weight
    return weight.reshape(count, 2, weight.shape[0] // count // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def folded(config, name, weight):
    return weight + 1 if "norm" in name else weight


def unchanged(config, name, weight):
    return weight


def write_llama(writer, model):
    plain = 1.0 / (THETA["rope_theta"] ** (torch.arange(0, model.config.head_dim, 2).float() / model.config.head_dim))
    writer.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq).numpy())
    writer.add_rope_freq_base(THETA["rope_theta"])
    writer.add_rope_dimension_count(model.config.head_dim)
    writer.add_key_length(model.config.head_dim)
    writer.add_value_length(model.config.head_dim)


def write_qwen2(writer, model):
    writer.add_rope_freq_base(THETA["rope_theta"])


def write_gemma3(writer, model):
    full, local = GEMMA3_ROPES["full_attention"], GEMMA3_ROPES["sliding_attention"]
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(full["factor"])
    writer.add_float32("gemma3.rope.freq_base_swa", local["rope_theta"])
    writer.add_sliding_window(model.config.sliding_window)
    writer.add_sliding_window_pattern(3)
    writer.add_key_length(model.config.head_dim)
    writer.add_value_length(model.config.head_dim)


# Name of the architecture, model, norms, type of the matrices, how weights change and what else is written.
MODELS = {
    "llama": (
        gguf.MODEL_ARCH.LLAMA,
        lambda: LlamaForCausalLM(LlamaConfig(**NARROW, rope_parameters=dict(LLAMA3))),
        (AROUND_ONE, F16, paired, write_llama),
    ),
    "qwen2": (
        gguf.MODEL_ARCH.QWEN2,
        lambda: Qwen2ForCausalLM(
            Qwen2Config(
                **{key: value for key, value in WIDE.items() if key != "head_dim"},
                rope_parameters=dict(THETA),
                tie_word_embeddings=True,
            )
        ),
        (AROUND_ONE, Q8_0, unchanged, write_qwen2),
    ),
    "gemma3": (
        gguf.MODEL_ARCH.GEMMA3,
        lambda: Gemma3ForCausalLM(
            Gemma3TextConfig(
                **{**NARROW, "num_hidden_layers": 3},
                rope_parameters={key: dict(value) for key, value in GEMMA3_ROPES.items()},
                sliding_window=8,
                sliding_window_pattern=3,
                query_pre_attn_scalar=NARROW["head_dim"],
            )
        ),
        (AROUND_ZERO, F16, folded, write_gemma3),
    ),
}


def write_sizes(writer, config):
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)


def write_tokenizer(writer):
    # One merge, since an empty list has no type in this format.
    alphabet = list(byte_tokenizer(93).get_vocab().items())
    tokens = [token for token, _ in sorted(alphabet, key=lambda item: item[1])][:93]
    merge = tokens[:2]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*tokens, "".join(merge), "<s>", "</s>"])
    writer.add_token_types([gguf.TokenType.NORMAL] * 94 + [gguf.TokenType.CONTROL] * 2)
    writer.add_token_merges([" ".join(merge)])
    writer.add_bos_token_id(94)
    writer.add_eos_token_id(95)
    writer.add_add_bos_token(False)


def write_weights(writer, model, names, kind, change):
    """Writes the weights, and gives the model what was written."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            stored_kind = kind if weight.dim() > 1 else gguf.GGMLQuantizationType.F32
            weight.copy_(torch.from_numpy(dequantize(quantize(weight.numpy(), stored_kind), stored_kind)))
            stored = quantize(change(model.config, name, weight).contiguous().numpy(), stored_kind)
            writer.add_tensor(names.get_name(name, (".weight", ".bias")), stored, raw_dtype=stored_kind)


def make():
    shutil.rmtree(HERE / "gguf", ignore_errors=True)
    prompts = prompts_of((1, 19, 70), VOCABULARY)
    for name, (arch, build, (norms, kind, change, more)) in MODELS.items():
        directory = HERE / "gguf" / name
        directory.mkdir(parents=True)
        torch.manual_seed(20261129)
        model = build().eval()
        model.set_attn_implementation("eager")
        randomise(model, norms)
        writer = gguf.GGUFWriter(directory / "model.gguf", gguf.MODEL_ARCH_NAMES[arch])
        write_sizes(writer, model.config)
        write_tokenizer(writer)
        more(writer, model)
        names = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
        write_weights(writer, model, names, kind, change)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        write(directory / "golden.json", {"models": {name: runs_of(model, prompts)}})
