#!/bin/sh
# Rebuilds policies/prebuilt/*.wasm from the sources, or with --check says which of them the sources no longer give.
#
# The bytes depend on the sources, Cargo.lock and the pinned toolchain only: every path that could leak into them (this
# checkout, Cargo's home, the toolchain) is mapped to a fixed one.
set -eu

policies="best-of-n big-little cascade citer co-llm contrastive ensemble entropy glimpse margin mixture \
    pinned proxy-tuning query-level r-stitch r2r random-share relay reward-guided spec-reason \
    speculative typical"
target=wasm32-wasip2

cd "$(dirname "$0")/.."
checkout=$(pwd -P)
prebuilt=policies/prebuilt
built=${CARGO_TARGET_DIR:-target}/$target/policy

case "${1:-}" in
"" | --check) ;;
*)
    echo "usage: policies/build.sh [--check]" >&2
    exit 2
    ;;
esac

sysroot=$(rustc --print sysroot)
if [ ! -d "$sysroot/lib/rustlib/$target" ]; then
    echo "policies/build.sh: the Rust target $target is not installed; rustup target add $target" >&2
    exit 3
fi

# Flags are separated by the unit separator, so that paths may hold spaces.
separator=$(printf '\037')
flags="--remap-path-prefix=$checkout=/tokenrouter"
flags="$flags$separator--remap-path-prefix=$sysroot=/toolchain"
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
    flags="$flags$separator--remap-path-prefix=$registry=/crates"
done

packages=""
for policy in $policies; do
    packages="$packages --package $policy"
done
# shellcheck disable=SC2086  # one word per package
CARGO_ENCODED_RUSTFLAGS=$flags cargo build --locked --quiet --lib --profile policy --target $target $packages

stale=""
for policy in $policies; do
    # Cargo names a library's file with underscores.
    fresh=$built/$(echo "$policy" | tr - _).wasm
    if [ "${1:-}" != --check ]; then
        cp "$fresh" "$prebuilt/$policy.wasm"
    elif ! cmp -s "$fresh" "$prebuilt/$policy.wasm"; then
        stale="$stale $policy"
    fi
done

if [ -n "$stale" ]; then
    echo "policies/build.sh: prebuilt components that the sources no longer give:$stale" >&2
    echo "  run policies/build.sh and commit policies/prebuilt" >&2
    exit 1
fi
