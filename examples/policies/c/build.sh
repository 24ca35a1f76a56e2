#!/bin/sh
# Builds the policy of a C file beside this script as a component: `build.sh [FILE WITHOUT .c] [FOLDER]`, without arguments
# `entropy` into this folder. Pinned tools go into $TOKENROUTER_TOOLS (without it, ~/.cache/tokenrouter/policy-tools), once:
# wit-bindgen writes the glue (cargo), zig compiles (PyPI), jco makes the component (npm).
set -eu

wit_bindgen=0.61.1
zig=0.17.1
jco=1.35.0

here=$(cd "$(dirname "$0")" && pwd -P)
name=${1:-entropy}
out=${2:-$here}
wit=$here/wit
[ -d "$wit" ] || wit=$here/../../../wit
tools=${TOKENROUTER_TOOLS:-$HOME/.cache/tokenrouter/policy-tools}/c-$wit_bindgen-$zig-$jco

for tool in cargo python3 npm; do
    command -v $tool >/dev/null || { echo "c/build.sh: needs $tool" >&2; exit 3; }
done
mkdir -p "$tools"
if [ ! -x "$tools/bin/wit-bindgen" ]; then
    cargo install --quiet --locked --root "$tools" --version "$wit_bindgen" --no-default-features --features c \
        wit-bindgen-cli
fi
if [ ! -x "$tools/zig/bin/python" ]; then
    python3 -m venv "$tools/zig"
    "$tools/zig/bin/pip" install --quiet --disable-pip-version-check "ziglang==$zig"
fi
if [ ! -x "$tools/node_modules/.bin/jco" ]; then
    npm install --prefix "$tools" --silent --no-audit --no-fund "@bytecodealliance/jco@$jco"
fi

glue=$(mktemp -d)
trap 'rm -rf "$glue"' EXIT
"$tools/bin/wit-bindgen" c "$wit" --world router --out-dir "$glue" >/dev/null 2>&1
# `-mexec-model=reactor`: functions to be called, no `main`. Nothing of the C library that is linked needs WASI. A stack of
# 64 KiB is plenty; without a word zig takes 16 MiB for each instance.
"$tools/zig/bin/python" -m ziglang cc --target=wasm32-wasi -mexec-model=reactor -Os -std=c11 -Wall -Wextra -s \
    -Wl,-z,stack-size=65536 -I "$here" -I "$glue" -o "$glue/core.wasm" \
    "$here/$name.c" "$here/tokenrouter.c" "$glue/router.c" "$glue/router_component_type.o"
"$tools/node_modules/.bin/jco" new "$glue/core.wasm" --output "$out/$name.wasm" >/dev/null
echo "$out/$name.wasm: $(wc -c <"$out/$name.wasm") bytes"
