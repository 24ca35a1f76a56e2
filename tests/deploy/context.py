"""Whether the image is built from all that the build needs: .dockerignore lets through what the sources include."""

import fnmatch
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rules():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def matches(pattern, path):
    """Whether a pattern means a path or a folder above it."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        above = "/".join(parts[:end])
        if pattern.startswith("**/"):
            if fnmatch.fnmatchcase(parts[end - 1], pattern[3:]):
                return True
        elif pattern.count("/") == above.count("/") and fnmatch.fnmatchcase(above, pattern):
            return True
    return False


def kept(path, patterns):
    ignored = False
    for pattern in patterns:
        if matches(pattern.removeprefix("!"), path):
            ignored = not pattern.startswith("!")
    return not ignored


def included(path):
    """What a source includes, as far as its name is written out."""
    text = (ROOT / path).read_text()
    for name in re.findall(r'include_(?:str|bytes)!\(\s*(?:concat!\(\s*)?"([^"]+)"', text):
        yield (ROOT / path).parent.joinpath(name).resolve()


def main():
    patterns = rules()
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [path for path in listed.stdout.splitlines() if (ROOT / path).exists()]
    context = {path for path in files if kept(path, patterns)}
    folders = {str(above) for path in context for above in pathlib.PurePath(path).parents}
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    needed = [*(f"{member}/Cargo.toml" for member in workspace), "Cargo.lock", "rust-toolchain.toml"]
    for path in context:
        if path.endswith(".rs"):
            needed += [str(found.relative_to(ROOT)) for found in included(path)]
    missing = sorted({path for path in needed if path not in context and path not in folders})
    if missing:
        sys.exit(f".dockerignore leaves out {', '.join(missing)}")
    if any(path.startswith((".git/", ".ci/", "target/")) for path in context):
        sys.exit(".dockerignore lets through what no image needs")
    print(f"the context has {len(context)} of {len(files)} files, and all {len(set(needed))} that are named")


main()
