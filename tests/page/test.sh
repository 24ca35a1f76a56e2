#!/usr/bin/env bash
# Drives the server's page in a real browser: three servers on free ports, one of which checks keys and one of which keeps
# what is changed, and every case of check.mjs. Installs the browser and its driver where they are absent.
#
# bash tests/page/test.sh [BINARY]: the server's, by default the release build of this checkout.
set -euo pipefail
cd "$(dirname "$0")/../.."

source tests/install.sh

folder=$(mktemp -d)
servers=()
finish() {
    for server in "${servers[@]}"; do
        kill -TERM "$server" 2> /dev/null || true
        wait "$server" || true
    done
    rm -rf "$folder"
}
trap finish EXIT

# Starts a server with a name and arguments of `serve`; its address is then in the file of that name.
serve() {
    local name=$1
    shift
    "$binary" serve --listen 127.0.0.1:0 "$@" > "$folder/$name.out" 2> "$folder/$name.log" &
    servers+=($!)
    for _ in $(seq 1 600); do
        if grep -oE 'http://127\.0\.0\.1:[0-9]+' "$folder/$name.out" | head -n 1 | grep . > "$folder/$name"; then return; fi
        kill -0 "${servers[-1]}" 2> /dev/null || break
        sleep 0.1
    done
    cat "$folder/$name.log"
    echo "the server did not start"
    exit 1
}

command -v chromium > /dev/null || install chromium
command -v npm > /dev/null || install nodejs npm
if ! node --eval 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)'; then
    echo "playwright-core needs Node 20 or newer, and this is $(node --version)"
    exit 1
fi
if [ $# -gt 0 ]; then
    binary=$1
else
    cargo build --locked --release
    binary=${CARGO_TARGET_DIR:-target}/release/tokenrouter
fi
npm ci --prefix tests/page --silent --no-audit --no-fund

"$binary" key new --tenant acme > "$folder/key" 2> /dev/null
key=$(head -n 1 "$folder/key")
{
    "$binary" config show
    printf '\n[tenants.acme]\nkeys = [%s]\n' "$(tail -n 1 "$folder/key")"
} > "$folder/guarded.toml"
serve open
serve guarded --config "$folder/guarded.toml"
serve live --data-dir "$folder/state"
CHROMIUM=$(command -v chromium) node tests/page/check.mjs "$(cat "$folder/open")" "$(cat "$folder/guarded")" \
    "$(cat "$folder/live")" "$key"
