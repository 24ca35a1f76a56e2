"""What the parts of make.py share: logits of the reference implementation, files, and a tokenizer to go with them."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

HERE = Path(__file__).resolve().parent


def rounded(values):
    """Seven significant digits: far below the tolerance, and short."""
    return [float(f"{value:.7g}") for value in values]


def logits_of(directory, prompts):
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    return runs_of(model.eval(), prompts)


def runs_of(model, prompts):
    runs = []
    for tokens in prompts:
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0]
        best = logits.max(dim=-1)
        runs.append(
            {
                "tokens": tokens,
                "best": best.indices.tolist(),
                "best_logits": rounded(best.values.tolist()),
                "last_logits": rounded(logits[-1].tolist()),
            }
        )
    return runs


def write(path, value):
    # One run or text per line, so that a change can be reviewed.
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for opening in ('{"tokens"', '"last_logits"', '"text"', '"messages"', '"small"', '"large"'):
        text = text.replace(opening, "\n" + opening)
    path.write_text(text + "\n")


def randomise(model, norms=(0.5, 1.5)):
    """Wide enough for sharp attention and large logits, so that a wrong detail shows."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(*norms)
            else:
                weight.normal_(0.0, 0.35)


def prompts_of(lengths, vocabulary):
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(0, vocabulary, (n,), generator=generator).tolist() for n in lengths]


def byte_tokenizer(size=256):
    """The first bytes as tokens, and two special tokens after them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:size]
    vocabulary = {token: index for index, token in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer
