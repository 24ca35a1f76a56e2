#!/usr/bin/env bash
# Builds the peer that compare.py, greedy.py and llama-perplexity runs need, from the sources inside a Python package:
# nothing else has to be fetched. Everything lands in one folder; removing it removes everything.
set -euo pipefail

PACKAGE=llama-cpp-python
VERSION=0.3.36
TARGETS=(llama llama-batched-bench llama-bench llama-quantize llama-perplexity llama-simple)
TOOLS=(cmake ninja scikit-build-core numpy diskcache jinja2 typing_extensions)

usage() {
    cat <<'TEXT'
Builds llama.cpp for this machine's processor.

usage: tests/bench/build_llama_cpp.sh [--jobs N] [--quantise MODEL.gguf]... [FOLDER]

  FOLDER              where everything goes [target/llama.cpp]
  --jobs N            compilers at once [all processors]
  --quantise MODEL    also write MODEL's name with -q4_0 and -q8_0 beside it, every tensor in that format: the peer is
                      measured in the formats that suit it best, too

examples:
  tests/bench/build_llama_cpp.sh
  nice -n 19 tests/bench/build_llama_cpp.sh --jobs 1 --quantise models/smollm2-135m-instruct-q4_1.gguf build/llama
TEXT
}

jobs=$(nproc)
folder=
models=()
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage; exit 0 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    --quantise) models+=("${2:?--quantise needs a file}"); shift 2 ;;
    -*) printf 'unknown option %s; see --help\n' "$1" >&2; exit 2 ;;
    *) folder=$1; shift ;;
    esac
done
for model in "${models[@]}"; do
    [ -f "$model" ] || { printf 'there is no file %s\n' "$model" >&2; exit 2; }
done
folder=${folder:-$(dirname "$0")/../../target/llama.cpp}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

source=$folder/${PACKAGE//-/_}-$VERSION
python=$folder/tools/bin/python
if [ ! -x "$folder/tools/bin/cmake" ]; then
    python3 -m venv "$folder/tools"
    "$python" -m pip install --quiet "${TOOLS[@]}"
fi
if [ ! -d "$source" ]; then
    # Its own build needs are installed above; without isolation they are not fetched again.
    "$python" -m pip download --quiet --no-deps --no-build-isolation --no-binary "$PACKAGE" \
        --dest "$folder" "$PACKAGE==$VERSION"
    tar -xzf "$source.tar.gz" -C "$folder"
fi

# GGML_NATIVE is -march=native. No server: it wants a web interface that is not in the package.
"$folder/tools/bin/cmake" -G Ninja -S "$source/vendor/llama.cpp" -B "$folder/build" \
    -DCMAKE_MAKE_PROGRAM="$folder/tools/bin/ninja" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_TESTS=OFF
"$folder/tools/bin/cmake" --build "$folder/build" --parallel "$jobs" --target "${TARGETS[@]}"

for model in "${models[@]}"; do
    for format in q4_0 q8_0; do
        # The name's own format, if it says one, gives way.
        quantised=$(printf '%s' "${model%.gguf}" | sed -E 's/-q[0-9]_[0-9a-z_]+$//i')-$format.gguf
        [ "$quantised" = "$model" ] || [ -f "$quantised" ] ||
            "$folder/build/bin/llama-quantize" --allow-requantize --pure "$model" "$quantised" "${format^^}"
    done
done
printf 'built in %s\n' "$folder/build/bin"
