#!/usr/bin/env bash
# Runs every command of the README as a stranger would: each line of its `sh` blocks, in order, in this checkout.
# `serve` runs in the background until the end; the test command is left to the caller, who has just run it.
set -euo pipefail
cd "$(dirname "$0")/.."

server=
finish() {
    if [ -n "$server" ]; then
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" || true
    fi
}
trap finish EXIT

await_ready() {
    for _ in $(seq 1 1200); do
        if curl --silent --fail --output /dev/null http://127.0.0.1:8080/ready; then
            return
        fi
        kill -0 "$server" 2>/dev/null || { echo "serve has ended"; exit 1; }
        sleep 0.5
    done
    echo "serve did not become ready"
    exit 1
}

commands=$(awk '/^```sh$/ {inside = 1; next} /^```$/ {inside = 0} inside && !/^#/ && NF' README.md)
[ -n "$commands" ] || { echo "README.md has no commands"; exit 1; }
passed=0
while IFS= read -r command; do
    printf '\n$ %s\n' "$command"
    case "$command" in
    "cargo test"*) echo "(already run)" ;;
    *" -- serve")
        cargo build --locked --release
        $command &
        server=$!
        await_ready
        ;;
    *) bash -euo pipefail -c "$command" < /dev/null ;;
    esac
    passed=$((passed + 1))
done <<< "$commands"

kill -TERM "$server"
wait "$server"
server=
echo
echo "README: $passed passed, 0 failed"
