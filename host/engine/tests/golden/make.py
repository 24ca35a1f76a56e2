"""Makes the golden files that the engine is checked against, with the reference implementation.

    python make.py [pair] [llama] [families] [gguf]

needs torch, transformers, tokenizers and gguf; it takes seconds on a CPU, and without names it makes all. It writes,
beside itself,

    pair.json            logits and token ids of the two models in host/tinypair/models: run again when they change
    random/<variant>/    a tiny random Llama (untied head, grouped queries, head_dim not hidden/heads) from a seed,
                         stored as f32, as bf16, and as f16 in two shards
    families/<name>/     a tiny random model of each other architecture
    gguf/<name>/         tiny random models as GGUF files

each model with its golden.json. Logits are of the weights as stored, computed in f32 with eager attention.
"""

import sys

import families
import gguf_files
import llama
import pair

PARTS = {
    "pair": pair.make,
    "llama": llama.make,
    "families": families.make,
    "gguf": gguf_files.make,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
