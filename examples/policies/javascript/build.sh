#!/bin/sh
# Builds the policy of a module beside this script as a component: `build.sh [MODULE] [FOLDER]`, without arguments
# `entropy` into this folder. The tool, componentize-qjs (QuickJS inside), goes with a pinned version into
# $TOKENROUTER_TOOLS (without it, ~/.cache/tokenrouter/policy-tools), once.
set -eu

componentize_qjs=0.4.5

here=$(cd "$(dirname "$0")" && pwd -P)
module=${1:-entropy}
out=${2:-$here}
wit=$here/wit
[ -d "$wit" ] || wit=$here/../../../wit
tools=${TOKENROUTER_TOOLS:-$HOME/.cache/tokenrouter/policy-tools}/javascript-$componentize_qjs

command -v npm >/dev/null || { echo "javascript/build.sh: needs npm (Node.js 20 or later)" >&2; exit 3; }
if [ ! -x "$tools/node_modules/.bin/componentize-qjs" ]; then
    mkdir -p "$tools"
    npm install --prefix "$tools" --silent --no-audit --no-fund "componentize-qjs@$componentize_qjs"
fi

# `--stub-wasi`: a policy gets no WASI. `--sync`: policies are synchronous. The modules are found beside this script.
"$tools/node_modules/.bin/componentize-qjs" --wit "$wit" --world router --js "$here/$module.js" \
    --module-root "$here" --stub-wasi --sync --output "$out/$module.wasm" >/dev/null
echo "$out/$module.wasm: $(wc -c <"$out/$module.wasm") bytes"
