#!/usr/bin/env bash
# Policies from an OCI registry: a real one, on this machine, which is installed where it is absent.
#
# bash tests/registry/test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

source tests/install.sh

command -v docker-registry > /dev/null || install docker-registry
cargo test --locked --workspace --test registry
