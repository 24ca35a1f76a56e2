#!/usr/bin/env bash
# Tests the converter of heads. Where Python has no numpy it goes into an environment in target/, and where Debian's Python
# has no environments, they are installed first.
set -euo pipefail
cd "$(dirname "$0")"

python=python3
if ! "$python" -c 'import numpy, tomllib' 2>/dev/null; then
    made=$PWD/../../target/heads-python
    python=$made/bin/python
    if ! "$python" -c 'import numpy, tomllib' 2>/dev/null; then
        if ! python3 -m venv --clear "$made"; then
            root=()
            [ "$(id -u)" = 0 ] || root=(sudo)
            "${root[@]}" apt-get update -qq
            "${root[@]}" apt-get install -y -qq python3-venv
            python3 -m venv --clear "$made"
        fi
        "$python" -m pip install --quiet --disable-pip-version-check numpy
    fi
fi
exec "$python" -m unittest
