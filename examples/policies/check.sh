#!/bin/sh
# Builds the entropy policy in every language whose tools are here, and holds each component against the Rust one of
# policies/prebuilt, decision by decision: `check.sh [LANGUAGE...]`. Needs the server's binary: $TOKENROUTER, or
# target/release/tokenrouter. A language whose tools are missing is skipped and said so; what was built and differs fails.
#
# Not run by CI: the tools are 500 MB, and a build takes up to a minute.
set -eu

cd "$(dirname "$0")"
root=$(cd ../.. && pwd -P)
tokenrouter=${TOKENROUTER:-$root/target/release/tokenrouter}
[ -x "$tokenrouter" ] || { echo "check.sh: no $tokenrouter; build it, or set TOKENROUTER" >&2; exit 2; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

failed="" skipped="" guests=""
for language in ${*:-c javascript python}; do
    echo "== $language"
    status=0
    sh "$language/build.sh" entropy "$out" || status=$?
    case "$status" in
    0) ;;
    3) skipped="$skipped $language" && continue ;;
    *) failed="$failed $language" && continue ;;
    esac
    component=$out/$language.wasm
    mv "$out/entropy.wasm" "$component"
    "$tokenrouter" policy compare "$root/policies/prebuilt/entropy.wasm" "$component" || failed="$failed $language"
    "$tokenrouter" policy test --conformance "$component" || failed="$failed $language"
    guests="$guests --guest $language=$component"
done

echo "== figures"
# shellcheck disable=SC2086  # one word per option
"$tokenrouter" bench policy $guests
[ -z "$skipped" ] || echo "skipped, for want of tools:$skipped"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
