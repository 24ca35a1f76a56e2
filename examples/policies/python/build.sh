#!/bin/sh
# Builds the policy of a module beside this script as a component: `build.sh [MODULE] [FOLDER]`, without arguments
# `entropy` into this folder. The tools go into a virtual environment of pinned versions in $TOKENROUTER_TOOLS (without it,
# ~/.cache/tokenrouter/policy-tools), 60 MB, once.
set -eu

componentize_py=0.25.1

here=$(cd "$(dirname "$0")" && pwd -P)
module=${1:-entropy}
out=${2:-$here}
wit=$here/wit
[ -d "$wit" ] || wit=$here/../../../wit
tools=${TOKENROUTER_TOOLS:-$HOME/.cache/tokenrouter/policy-tools}/python-$componentize_py

command -v python3 >/dev/null || { echo "python/build.sh: needs python3 (3.10 or later)" >&2; exit 3; }
if [ ! -x "$tools/bin/componentize-py" ]; then
    python3 -m venv "$tools" || { echo "python/build.sh: needs python3 with venv" >&2; exit 3; }
    "$tools/bin/pip" install --quiet --disable-pip-version-check "componentize-py==$componentize_py"
fi

# `--stub-wasi`: a policy gets no WASI, and a component that imports it is refused.
"$tools/bin/componentize-py" --quiet -d "$wit" -w router componentize --stub-wasi -p "$here" -o "$out/$module.wasm" \
    "$module"
echo "$out/$module.wasm: $(wc -c <"$out/$module.wasm") bytes"
