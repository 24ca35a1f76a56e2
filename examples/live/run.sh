#!/bin/sh
# Two tenants upload a policy each, one in Rust and one in Python, to a server that runs and has no compiler; an experiment with
# 10,000 simulated users finds that one of them answers better, and it is promoted under load: `run.sh [--users N]`.
#
# Needs Python 3 and the server's binary: $TOKENROUTER, or target/release/tokenrouter. The Python policy is built once from
# examples/policies/python, which brings its tool from PyPI unless $PYTHON_POLICY names a component that is there.
set -eu

cd "$(dirname "$0")"
root=$(cd ../.. && pwd -P)
tokenrouter=${TOKENROUTER:-$root/target/release/tokenrouter}
[ -x "$tokenrouter" ] || { echo "run.sh: no $tokenrouter; build it, or set TOKENROUTER" >&2; exit 2; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

python=${PYTHON_POLICY:-}
if [ -z "$python" ]; then
    sh "$root/examples/policies/python/build.sh" entropy "$out"
    python=$out/entropy.wasm
fi
python3 run.py --binary "$tokenrouter" \
    --component "Rust=$root/policies/prebuilt/entropy.wasm" --component "Python=$python" "$@"
