#!/usr/bin/env python3
"""Measures this engine and its peers on the same model, turn by turn, and sets them against each other.

All contestants get the same GGUF file, the same number of threads, prompts of the same length and the same number of
decode steps, each with its own batching, threads and kernels at their defaults. In every repetition each contestant
runs once, in an order that rotates, so that a slow minute of the machine hits all of them; within its turn it does
every batch twice, and the second counts. Ratios are taken within a repetition; the table has their medians.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = """\
examples:
  tests/bench/build_llama_cpp.sh --quantise models/smollm2-q4_1.gguf
  cargo build --release
  tests/bench/compare.py --model models/smollm2-q4_1.gguf
  tests/bench/compare.py --model models/smollm2-q4_1.gguf --llama-model models/smollm2-q4_0.gguf \\
      --llama-model models/smollm2-q8_0.gguf --openvino ov/bin/python --repetitions 5 --json compare.json
"""


class Contestant:
    """One engine with one file; `measure` gives {batch: {"prefill": tokens/s, "decode": tokens/s}}."""

    def __init__(self, name, measure):
        self.name = name
        self.measure = measure


def run(command, **more):
    """The output of a command; its last words and the end of this program if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        last = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-15:])
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{last}")
    return done.stdout


def ours(args):
    """This engine, through `bench decode`."""

    def measure():
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / "decode.json"
            command = [args.ours, "bench", "decode", "--model", args.model, "--threads", args.threads]
            command += ["--batches", ",".join(map(str, args.batches)), "--prompt", args.prompt]
            run([*command, "--tokens", args.tokens, "--rounds", 1, "--json", saved])
            rows = json.loads(saved.read_text(encoding="utf-8"))["rows"]
        speeds = ("prefill", "decode")
        return {row["batch"]: {which: row[f"{which}_tokens_per_s"] for which in speeds} for row in rows}

    return Contestant("tokenrouter", measure)


def llama_cpp(args, binary, model):
    """llama-batched-bench: forward passes and logits, a random next token, no sampling."""

    def measure():
        twice = ",".join(f"{batch},{batch}" for batch in args.batches)
        context = max(args.batches) * (args.prompt + args.tokens)
        command = [binary, "-m", model, "-c", context, "-b", 2048, "-ub", 512, "--output-format", "jsonl"]
        command += ["-npp", args.prompt, "-ntg", args.tokens, "-npl", twice, "-t", args.threads, "-tb", args.threads]
        rows = [json.loads(line) for line in run(command).splitlines() if line.startswith("{")]
        # Of the two lines of a batch the later one stays.
        return {row["pl"]: {"prefill": row["speed_pp"], "decode": row["speed_tg"]} for row in rows}

    name = "llama.cpp" if model == args.model else f"llama.cpp {model.stem}"
    return Contestant(name, measure)


def openvino(args):
    """OpenVINO GenAI: whole `generate` calls, greedy sampling included."""

    def measure():
        script = Path(__file__).with_name("openvino_speed.py")
        command = [args.openvino, script, args.model, args.threads, args.prompt, args.tokens]
        last = run([*command, *args.batches]).splitlines()[-1]
        return {int(batch): speeds for batch, speeds in json.loads(last).items()}

    return Contestant("OpenVINO", measure)


def contestants(args):
    """Who takes part, ours first."""
    found = [ours(args)]
    binary = batched_bench(args.llama_cpp)
    if binary:
        found += [llama_cpp(args, binary, model) for model in [args.model, *args.llama_model]]
    else:
        print("no llama-batched-bench: build it with tests/bench/build_llama_cpp.sh, or name it with --llama-cpp DIR")
    if args.openvino:
        found.append(openvino(args))
    return found


def batched_bench(folder):
    """The peer's binary: in the folder given, where build_llama_cpp.sh puts it, or on PATH."""
    name = "llama-batched-bench"
    if folder:
        places = [folder / name, folder / "bin" / name, folder / "build" / "bin" / name]
        binary = next((place for place in places if place.is_file()), None)
        return binary or sys.exit(f"there is no {name} in {folder}, {folder}/bin or {folder}/build/bin")
    built = ROOT / "target" / "llama.cpp" / "build" / "bin" / name
    return built if built.is_file() else shutil.which(name)


def measure_all(args, taking_part):
    """{name: {batch: {"prefill": [per repetition], "decode": [...]}}}"""
    figures = {
        one.name: {batch: {"prefill": [], "decode": []} for batch in args.batches} for one in taking_part
    }
    for repetition in range(args.repetitions):
        turn = repetition % len(taking_part)
        for one in taking_part[turn:] + taking_part[:turn]:
            doing(f"repetition {repetition + 1} of {args.repetitions}: {one.name}")
            for batch, speeds in one.measure().items():
                for which, speed in speeds.items():
                    figures[one.name][batch][which].append(speed)
    doing("")
    return figures


def doing(what):
    """Shows a person what is going on, in one line that is written over."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def ratios(figures, which):
    """{name: {batch: ours over the peer's}}; "best peer" is the fastest of each repetition."""
    name, *peers = figures
    result = {}
    for batch, mine in figures[name].items():
        theirs = {peer: figures[peer][batch][which] for peer in peers}
        if len(peers) > 1:
            theirs["best peer"] = [max(speeds) for speeds in zip(*theirs.values())]
        for peer, speeds in theirs.items():
            each = [a / b for a, b in zip(mine[which], speeds)]
            result.setdefault(peer, {})[batch] = statistics.median(each)
    return result


def table(figures, which):
    """One line per contestant, two columns per batch: the median with its range, and ours over it."""
    against = ratios(figures, which)
    batches = list(next(iter(figures.values())))
    lines = [[f"{which} tokens/s"] + [cell for batch in batches for cell in (f"B={batch}", "ratio")]]
    for name, by_batch in figures.items():
        line = [name]
        for batch in batches:
            speeds = by_batch[batch][which]
            ratio = against.get(name, {}).get(batch)
            shown = f"{statistics.median(speeds):.0f} ({min(speeds):.0f}-{max(speeds):.0f})"
            line += [shown, "" if ratio is None else f"{ratio:.2f}"]
        lines.append(line)
    if "best peer" in against:
        best = against["best peer"]
        lines.append(["ours / best peer"] + [cell for batch in batches for cell in ("", f"{best[batch]:.2f}")])
    return aligned(lines)


def aligned(lines):
    """Cells in columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines)]

    def padded(first, *rest):
        return "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:]))])

    return "\n".join(padded(*line).rstrip() for line in lines)


def parsed():
    """The command line, checked."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default, metavar, kind, words in OPTIONS:
        parser.add_argument(name, default=default, metavar=metavar, type=kind, help=words)
    parser.add_argument("--model", required=True, metavar="FILE", type=Path, help="the GGUF file that everybody runs")
    words = "the same model in another format: llama.cpp with it is one more contestant; repeatable"
    parser.add_argument("--llama-model", action="append", default=[], metavar="FILE", type=Path, help=words)
    args = parser.parse_args()
    for file in [args.model, args.ours, *args.llama_model]:
        if not file.is_file():
            hint = "; build it with cargo build --release" if file == args.ours else ""
            parser.error(f"there is no file {file}{hint}")
    # A bare name would be looked up on PATH.
    args.ours = args.ours.absolute()
    return args


def count(text):
    """A number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def counts(text):
    """Numbers of at least 1 with commas between them, each once."""
    return list(dict.fromkeys(count(part) for part in text.split(",")))


def main():
    """Measures, prints, saves."""
    args = parsed()
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"the machine is busy (load {load:.1f}): expect figures that are low and spread; see README.md")
    figures = measure_all(args, contestants(args))
    for which in ("decode", "prefill"):
        print(f"\n{table(figures, which)}")
    asked = f"{args.threads} threads, {args.prompt} tokens fed, {args.tokens} decoded"
    print(f"\n{args.model.name}, {asked}; median (least-most) of {args.repetitions}")
    print("ratio: ours / theirs, the median over repetitions")
    if args.json:
        settings = {key: getattr(args, key) for key in ("threads", "batches", "prompt", "tokens", "repetitions")}
        ratio = {which: ratios(figures, which) for which in ("decode", "prefill")}
        saved = {"model": args.model.name, **settings, "load": load, "figures": figures, "ratios": ratio}
        args.json.write_text(json.dumps(saved, indent=2) + "\n", encoding="utf-8")


OURS = ROOT / "target/release/tokenrouter"
# Name, default, placeholder, type, help.
OPTIONS = [
    ("--ours", OURS, "BINARY", Path, "this engine [target/release/tokenrouter]"),
    ("--llama-cpp", None, "DIR", Path, "where llama-batched-bench is [build_llama_cpp.sh's folder, or PATH]"),
    ("--openvino", None, "PYTHON", str, "a Python that has the package openvino-genai [OpenVINO takes no part]"),
    ("--threads", os.cpu_count(), "N", count, "threads of every contestant [all processors]"),
    ("--batches", [1, 8, 32], "N,...", counts, "sequences decoded at once [1,8,32]"),
    ("--prompt", 128, "N", count, "tokens of every prompt [128]"),
    ("--tokens", 64, "N", count, "decode steps [64]"),
    ("--repetitions", 3, "N", count, "turns of every contestant [3]"),
    ("--json", None, "FILE", Path, "save every figure"),
]
# Runnable processes over the last minute, beyond which other work is certainly disturbing.
BUSY = 0.5

if __name__ == "__main__":
    main()
