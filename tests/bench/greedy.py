#!/usr/bin/env python3
"""Lets llama.cpp answer the prompts of prompts.json greedily, so that another engine can be compared with it.

Writes, per prompt: the text, its token ids, the ids chosen, and at each choice the gap between the two best logits.
`cargo run --release -p engine --example greedy -- MODEL FILE` does the same with this engine and says where they part.
"""

import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = """\
examples:
  tests/bench/build_llama_cpp.sh
  tests/bench/greedy.py --model models/smollm2-q4_1.gguf --json target/greedy.json
  cargo run --release -p engine --example greedy -- models/smollm2-q4_1.gguf target/greedy.json
"""


def parsed():
    """The command line, checked."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="FILE", help="a GGUF file")
    add("--json", type=Path, required=True, metavar="FILE", help="where the answers go")
    built = HERE.parents[1] / "target/llama.cpp"
    add("--llama-cpp", type=Path, default=built, metavar="DIR", help="build_llama_cpp.sh's folder [target/llama.cpp]")
    texts = HERE / "prompts.json"
    add("--prompts", type=Path, default=texts, metavar="FILE", help="a JSON list of texts [prompts.json]")
    add("--tokens", type=int, default=64, metavar="N", help="choices per prompt [64]")
    add("--threads", type=int, default=os.cpu_count(), metavar="N", help="[all processors]")
    args = parser.parse_args()
    for file in (args.model, args.prompts, args.llama_cpp / "tools/bin/python"):
        if not file.exists():
            parser.error(f"there is no {file}; see --help")
    return args


def binding(folder):
    """The Python interface that came with the sources, on the libraries built from them.

    It wants some packages, which are installed beside the build: this program goes on in that Python.
    """
    python = folder / "tools/bin/python"
    if Path(sys.prefix).resolve() != (folder / "tools").resolve():
        os.environ["LLAMA_CPP_LIB_PATH"] = str((folder / "build/bin").resolve())
        os.execv(python, [str(python), *sys.argv])
    sys.path.insert(0, str(next(folder.glob("llama_cpp_python-*/"))))
    import llama_cpp  # pylint: disable=import-outside-toplevel

    return llama_cpp


def answer(llama_cpp, model, text, tokens):
    """One prompt's answer. Special tokens in the text are plain text; BOS is added if the model wants it."""
    import numpy  # pylint: disable=import-outside-toplevel

    prompt = model.tokenize(text.encode(), add_bos=True, special=False)
    model.reset()
    model.eval(prompt)
    ids, gaps = [], []
    for _ in range(tokens):
        logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model.ctx, -1), (model.n_vocab(),))
        second, best = numpy.argpartition(logits, -2)[-2:]
        ids.append(int(best))
        gaps.append(round(float(logits[best] - logits[second]), 4))
        model.eval([ids[-1]])
    return {"text": text, "prompt_ids": prompt, "ids": ids, "gaps": gaps}


def main():
    """Answers and saves."""
    args = parsed()
    llama_cpp = binding(args.llama_cpp)
    prompts = json.loads(args.prompts.read_text(encoding="utf-8"))
    threads = {"n_threads": args.threads, "n_threads_batch": args.threads}
    model = llama_cpp.Llama(str(args.model), n_ctx=CONTEXT, verbose=False, **threads)
    answers = [answer(llama_cpp, model, text, args.tokens) for text in prompts]
    saved = {"engine": "llama.cpp", "model": args.model.name, "answers": answers}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    for one in answers:
        print(f"{one['text']!r} -> {model.detokenize(one['ids']).decode(errors='replace')!r}")


# Room for a prompt and its answer.
CONTEXT = 2048

if __name__ == "__main__":
    main()
