"""Makes the small GGUF files that tokenizers are checked with, and their token ids by the reference implementations.

    python gguf_tokens.py                     writes tokenizers/{bytes,pieces}.gguf and tokens.json
    python gguf_tokens.py ids MODEL OUT.json  writes the ids of 500 texts by a real model, for examples/compare_tokens.rs

needs gguf, sentencepiece, tokenizers and xllamacpp (llama.cpp in a wheel); it takes a minute on a CPU. The two files
hold vocabularies only. They are learnt from the texts themselves, without splitting them first, so that every merge
that a split must forbid is there to be made.
"""

import io
import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path

import gguf
import numpy
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizer_texts import FIXED, varied
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent / "tokenizers"

# One name of each scheme in src/tokenizer/gguf/splits.rs.
SCHEMES = [
    "default", "gpt-2", "smollm", "llama-bpe", "smaug-bpe", "qwen2", "deepseek-r1-qwen", "qwen35", "tekken", "gpt-4o",
    "deepseek-llm", "deepseek-coder", "deepseek-v3",
]  # fmt: skip

# llama.cpp writes some patterns for its own engine and is not exact beyond Latin capitals and marks, and its list of
# letters for deepseek-llm is matched with another case rule; those texts are left out where it matters.
TEXTS = [text for text in FIXED if len(text) <= 90 and "\u01c5" not in text and "\u0928" not in text]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def learnt_bytes():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=560, initial_alphabet=alphabet, max_token_length=6, show_progress=False)
    tokenizer.train_from_iterator(TEXTS + varied(120, seed=2), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    kinds = [NORMAL] * len(tokens)
    for text, kind in [
        ("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL), ("<table>", USER_DEFINED),
        ("[PAD1]", UNUSED), ("[PAD2]", UNUSED),
    ]:  # fmt: skip
        tokens.append(text)
        kinds.append(kind)
    ids = {text: id for id, text in enumerate(tokens)}
    return {
        "model": "gpt2",
        "tokens": tokens,
        "token_type": kinds,
        "merges": [" ".join(merge) for merge in model["merges"]],
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "add_bos_token": False,
    }


def learnt_pieces():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text for text in TEXTS + varied(120, seed=2) if "\x00" not in text),
        model_writer=model, model_type="bpe", vocab_size=720, byte_fallback=True, character_coverage=0.98,
        normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
        split_by_whitespace=False, split_by_number=False, split_by_unicode_script=False, max_sentencepiece_length=6,
        user_defined_symbols=["\n", "\n\n", "\u2581\u2581", "<table>"], minloglevel=2,
    )  # fmt: skip
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    pieces = [
        # Converters write the spaces of user-defined pieces plainly.
        (piece.piece.replace("\u2581", " ") if piece.type == USER_DEFINED else piece.piece, piece.score, piece.type)
        for piece in proto.pieces
    ]
    texts, scores, kinds = map(list, zip(*pieces))
    reference = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return reference, {
        "model": "llama",
        "tokens": texts,
        "scores": scores,
        "token_type": kinds,
        "bos_token_id": reference.bos_id(),
        "eos_token_id": reference.eos_id(),
        "unknown_token_id": reference.unk_id(),
        "add_bos_token": True,
    }


def write(path, vocabulary, weights=False, **more):
    """A file with a vocabulary; with random weights too if a program insists on a whole model."""
    writer = gguf.GGUFWriter(str(path), "llama")
    for key, value in {**vocabulary, **more}.items():
        key = "tokenizer.chat_template" if key == "chat_template" else f"tokenizer.ggml.{key}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    if weights:
        size, width = len(vocabulary["tokens"]), 32
        writer.add_context_length(64)
        writer.add_embedding_length(width)
        writer.add_block_count(1)
        writer.add_feed_forward_length(width)
        writer.add_head_count(1)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(width)
        writer.add_vocab_size(size)
        shapes = {"token_embd": (size, width), "output_norm": (width,), "blk.0.attn_norm": (width,)}
        shapes |= {f"blk.0.attn_{part}": (width, width) for part in ["q", "k", "v", "output"]}
        shapes |= {f"blk.0.ffn_{part}": (width, width) for part in ["gate", "up", "down"]} | {"blk.0.ffn_norm": (width,)}
        for name, shape in shapes.items():
            writer.add_tensor(f"{name}.weight", numpy.ones(shape, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def by_llama_cpp(model, texts):
    """Ids without BOS, with control tokens' texts as plain text."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_ctx, parameters.warmup, parameters.verbosity = str(model), 64, False, -1
    server = xllamacpp.Server(parameters)
    ids = []
    for text in texts:
        asked = json.dumps({"content": text, "add_special": False, "parse_special": False}).encode()
        request = urllib.request.Request(
            f"{server.listening_address}/tokenize", asked, {"Content-Type": "application/json"}
        )
        ids.append(json.load(urllib.request.urlopen(request))["tokens"])
    return ids


def main():
    HERE.mkdir(exist_ok=True)
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    bytes_, (reference, pieces) = learnt_bytes(), learnt_pieces()
    write(HERE / "bytes.gguf", bytes_, pre="gpt-2", chat_template=template)
    write(HERE / "pieces.gguf", pieces, pre="default", add_space_prefix=False)
    golden = {"texts": TEXTS}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.gguf"
        for scheme in SCHEMES:
            write(model, bytes_, weights=True, pre=scheme)
            golden[scheme] = by_llama_cpp(model, TEXTS)
        for name, prefix in [("pieces", False), ("pieces with a space first", True)]:
            write(model, pieces, weights=True, pre="default", add_space_prefix=prefix)
            golden[name] = by_llama_cpp(model, TEXTS)
    for text, ids, original in zip(TEXTS, golden["pieces"], map(reference.encode, TEXTS)):
        if ids != original:
            print(f"sentencepiece differs from llama.cpp on {text!r}: {original} is not {ids}")
    golden["pieces"] = [reference.encode(text) for text in TEXTS]
    lines = [f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in golden.items()]
    (HERE / "tokens.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["ids"]:
        texts = varied(500)
        pairs = [{"text": text, "ids": ids} for text, ids in zip(texts, by_llama_cpp(sys.argv[2], texts))]
        Path(sys.argv[3]).write_text(json.dumps(pairs))
    else:
        main()
    sys.stdout.flush()
    os._exit(0)  # the servers' threads would wait for ever
