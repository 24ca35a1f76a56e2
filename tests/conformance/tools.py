"""The programs of others that are run against the server: each gives its version, and what came of it."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass
class Tools:
    """Where they are, and what they ask."""

    python: Path
    scratch: Path
    url: str

    def run(self, *command, timeout=1800):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, cwd=self.scratch)
        return done.returncode, done.stdout, done.stderr

    def version(self, package):
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        return self.run(self.python, "-c", code)[1].strip()

    def program(self, name):
        return self.python.parent / name


def outcome(tool, version, passed, words):
    return {"tool": tool, "version": version, "passed": passed, "words": words}


def openai_python(tools):
    code, out, err = tools.run(tools.python, ROOT / "tests/clients/openai_client.py", tools.url)
    return outcome("openai (PyPI)", tools.version("openai"), code == 0, out.strip() or last(err))


def openai_javascript(tools):
    home = tools.scratch / "javascript"
    home.mkdir(exist_ok=True)
    if not (home / "node_modules/openai").exists():
        tools.run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", home, "openai")
    script = home / "openai_client.mjs"
    shutil.copy(ROOT / "tests/clients/openai_client.mjs", script)
    version = json.loads((home / "node_modules/openai/package.json").read_text())["version"]
    code, out, err = tools.run("node", script, tools.url)
    return outcome("openai (npm)", version, code == 0, out.strip() or last(err))


def llm_comply(tools):
    words, passed = [], True
    for model in ["small", "pair/entropy"]:
        command = [tools.program("llm-comply"), "-u", f"{tools.url}/v1", "-k", "none", "-m", model, "--format", "openai-chat"]
        _, out, err = tools.run(*command, "--json")
        told = json.loads(out[out.index("{"):] if "{" in out else "{}") or {"error": last(err)}
        tests = told.get("results") or told.get("tests") or []
        bad = [test for test in tests if test.get("status") not in ("passed", "skipped", "warning")]
        unexpected = [test for test in bad if test["id"] not in UNSUPPORTED]
        passed &= bool(tests) and not unexpected
        count = sum(test.get("status") == "passed" for test in tests)
        refused = "; ".join(f"{test['id']}: {UNSUPPORTED[test['id']]}" for test in bad if test["id"] in UNSUPPORTED)
        named = "".join(f"; {test['id']} FAILED" for test in unexpected)
        words.append(f"{model}: {count} of {len(tests)} pass{f' ({refused})' if refused else ''}{named}")
    return outcome("llm-comply, openai-chat", tools.version("llm-comply"), passed, "; ".join(words))


def schemathesis(tools):
    command = [
        tools.program("schemathesis"), "run", f"{tools.url}/openapi.json", "--url", tools.url, "--checks", "all",
        "--phases", "examples,coverage,fuzzing", "--max-examples", "25", "--seed", "1", "--workers", "2",
        "--exclude-checks", ",".join(UNFIT), "--continue-on-failure", "--request-timeout", "60", "--no-color", "--suppress-health-check", "all",
    ]
    code, out, err = tools.run(*command)
    (tools.scratch / "schemathesis.log").write_text(out + err)
    cases = re.findall(r"^\s*(\d+) generated", out, re.M) or re.findall(r"(\d+) (?:test )?cases", out)
    words = f"{cases[0]} cases of all operations, no failure" if code == 0 and cases else last(out)
    return outcome("schemathesis on openapi.json, all checks but positive_data_acceptance", tools.version("schemathesis"), code == 0, words)


def lm_eval(tools):
    models = ["small", "large", "pair/entropy=small"]
    code, out, err = tools.run(tools.python, HERE / "lm_eval/check.py", tools.url, ROOT / "host/tinypair/models", *models)
    if code != 0:
        return outcome("lm-eval, local-completions", tools.version("lm-eval"), False, last(err))
    told = json.loads(out.strip().splitlines()[-1])
    each = [f"{model}: {of['compared']} log-likelihoods, at most {max(of['worst'].values()):.1e} from transformers'" for model, of in told.items()]
    versions = f"{tools.version('lm-eval')} (transformers {tools.version('transformers')})"
    return outcome("lm-eval, local-completions, both tokenizer backends", versions, True, "; ".join(each))


# Its data is right by the schema, which cannot say all: that min_tokens is at most max_tokens, which ids a model has, how
# much its context holds, which settings go with which, what of an experiment's state allows a change.
UNFIT = ["positive_data_acceptance"]


def last(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "said nothing"


# What a model of text cannot do is refused by name.
UNSUPPORTED = {"chat-image-input": "the models take text only"}
ALL = {
    "openai-python": openai_python,
    "openai-javascript": openai_javascript,
    "llm-comply": llm_comply,
    "schemathesis": schemathesis,
    "lm-eval": lm_eval,
}
