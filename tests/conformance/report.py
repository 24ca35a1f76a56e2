#!/usr/bin/env python3
"""Runs what the report is about, and writes tests/conformance/README.md.

report.py                      everything: the tests of cases.toml, then each tool against `serve`
report.py --only lm-eval       one of: cases, openai-python, openai-javascript, llm-comply, schemathesis, lm-eval
report.py --write              only writes the report again, from results.json
report.py --binary PATH        another server than the debug build of this checkout

What a run does not touch stays as results.json has it. The tools are installed into target/conformance, some gigabytes as
the transformers library is among them.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from pathlib import Path

import tools

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.json"


def cases():
    return tomllib.loads((HERE / "cases.toml").read_text())["case"]


def target():
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def run_cases():
    """Results of the tests that cases name."""
    command = ["cargo", "test", "--locked", "--workspace", "--test", "all", "--", "--test-threads", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    # What a test prints may stand between its name and its result.
    said = re.findall(r"^test (\S+) \.\.\. .*?(ok|FAILED|ignored)$", done.stdout, re.M | re.S)
    assert said, done.stderr[-2000:]
    named = {test for case in cases() for test in case["tests"]}
    told = {"ok": "pass", "FAILED": "fail", "ignored": "not run"}
    return {name: told[result] for name, result in said if name in named}


def installed(python):
    wanted, kept = HERE / "requirements.txt", python.parent / "requirements.txt"
    if kept.exists() and kept.read_text() == wanted.read_text():
        return
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
    kept.write_text(wanted.read_text())


class Served:
    """A server of the embedded pair."""

    def __init__(self, binary, folder):
        log = open(folder / "server.log", "w")
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder / "data"]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        deadline = time.monotonic() + 60
        while not (found := re.search(r"127\.0\.0\.1:(\d+)", (folder / "server.log").read_text())):
            assert time.monotonic() < deadline and self.process.poll() is None, (folder / "server.log").read_text()
            time.sleep(0.1)
        self.url = f"http://127.0.0.1:{found[1]}"
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/ready", timeout=5)
                return
            except OSError:
                assert time.monotonic() < deadline, "it is not ready"
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        alive = self.process.poll() is None
        self.process.terminate()
        self.process.wait(60)
        assert alive, "the server ended under what it was asked"


def run_tools(names, binary, results):
    home = (target() / "conformance").resolve()
    home.mkdir(parents=True, exist_ok=True)
    python = home / "python/bin/python"
    installed(python)
    for name in names:
        # A server of its own for each, so that none sees what another has left.
        with tempfile.TemporaryDirectory() as folder, Served(binary, Path(folder)) as served:
            results[name] = tools.ALL[name](tools.Tools(python, home, served.url))
        print(f"{name}: {results[name]}", flush=True)


def written(results):
    lines = [
        "# What was checked against the server, and what came of it", "",
        "Written by `python3 tests/conformance/report.py`; do not change it by hand. The situations are in",
        "[`cases.toml`](cases.toml), each with the end-to-end tests that show it on the real server; the results of all runs are in",
        "[`results.json`](results.json).", "",
        "## Programs of others", "", "| program | version | result | |", "|---|---|---|---|",
    ]
    for name in tools.ALL:
        if of := results.get(name):
            result = "pass" if of["passed"] else "**fail**"
            lines.append(f"| {of['tool']} | {of['version']} | {result} | {cell(of['words'])} |")
        else:
            lines.append(f"| {name} | | not run | |")
    lines += ["", "## Situations that broke other servers", "", "| | situation | tests | result |", "|---|---|---|---|"]
    of_tests = results.get("cases", {})
    for case in cases():
        tests = case["tests"]
        said = [of_tests.get(test, "not run") for test in tests] or [f"missing: {case.get('missing')}"]
        result = said[0] if len(set(said)) == 1 else ", ".join(sorted(set(said)))
        names = "<br>".join(f"`{test}`" for test in tests)
        lines.append(f"| {case['number']} | {case['situation']} | {names} | {result} |")
    return "\n".join(lines) + "\n"


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["cases", *tools.ALL], default=["cases", *tools.ALL])
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not asked.write:
        if "cases" in asked.only:
            results["cases"] = run_cases()
        binary = (asked.binary or target() / "debug/tokenrouter").resolve()
        run_tools([name for name in asked.only if name != "cases"], binary, results)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    (HERE / "README.md").write_text(written(results))
    failed = [name for name in asked.only if name != "cases" and not results.get(name, {}).get("passed")]
    failed += [name for name, result in results.get("cases", {}).items() if result == "fail"]
    if failed and not asked.write:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
