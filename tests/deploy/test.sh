#!/usr/bin/env bash
# Checks what examples/deploy has, and host/server/openapi.json, each with the tool that knows its kind, and where it is about a
# running server, on one. Installs what it needs: Python's packages and promtool into target/, the rest by the system's
# packages. kubectl is used where it is installed; without it the manifests are checked as they are written, and it says so.
#
# bash tests/deploy/test.sh [BINARY]: the server's, by default the release build of this checkout.
set -euo pipefail
cd "$(dirname "$0")/../.."

source tests/install.sh

say() {
    printf -- '-- %s\n' "$*"
}

tools=$PWD/target/deploy-tools
mkdir -p "$tools"
command -v curl > /dev/null || install curl
command -v systemd-analyze > /dev/null || install systemd
command -v strace > /dev/null || install strace
python=$tools/python/bin/python
if ! cmp -s tests/deploy/requirements.txt "$tools/requirements.txt"; then
    if ! python3 -m venv --clear "$tools/python"; then
        install python3-venv
        python3 -m venv --clear "$tools/python"
    fi
    "$python" -m pip install --quiet --disable-pip-version-check -r tests/deploy/requirements.txt
    cp tests/deploy/requirements.txt "$tools/"
fi
promtool=$(command -v promtool || echo "$tools/prometheus/usr/bin/promtool")
if [ ! -x "$promtool" ]; then
    # Unpacked, not installed: the package would start a server.
    as_root apt-get update -qq
    (cd "$tools" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb prometheus)
fi
if [ $# -gt 0 ]; then
    binary=$(realpath "$1")
else
    cargo build --locked --release
    binary=$(realpath "${CARGO_TARGET_DIR:-target}/release/tokenrouter")
fi

folder=$(mktemp -d)
server=
# The process that runs under strace is told to end, and strace ends with it.
stop() {
    kill -TERM "$(pgrep --parent "$server")"
    wait "$server"
    server=
}
finish() {
    if [ -n "$server" ]; then stop || true; fi
    rm -rf "$folder"
}
trap finish EXIT

say "Dockerfile"
"$tools/python/bin/hadolint" examples/deploy/Dockerfile
"$python" tests/deploy/context.py

say "systemd unit"
unit=$folder/tokenrouter.service
sed "s|/usr/local/bin/tokenrouter|$binary|" examples/deploy/tokenrouter.service > "$unit"
systemd-analyze verify "$unit"
# The exposure in tenths: 14 by systemd 252; other versions count a little differently.
systemd-analyze security --offline=true --threshold=20 "$unit" | tail -n 1

say "manifests for Kubernetes"
kubernetes=examples/deploy/kubernetes
if kubectl version --client --output=yaml 2> /dev/null | grep -q 'kustomizeVersion: v5'; then
    for overlay in base durable; do
        kubectl kustomize "$kubernetes/$overlay" > "$folder/$overlay.yaml"
    done
    "$tools/python/bin/kubernetes-validate" --strict --quiet "$folder"/{base,durable}.yaml
    "$python" tests/deploy/manifests.py "$folder/base.yaml" "$folder/durable.yaml"
else
    echo "no kubectl with kustomize 5 here: the overlay durable is not rendered, the base is checked file by file"
    "$tools/python/bin/kubernetes-validate" --strict --quiet \
        "$kubernetes"/base/{deployment,service,disruption}.yaml "$kubernetes/durable/claim.yaml"
    "$python" tests/deploy/manifests.py "$kubernetes/base/deployment.yaml"
fi
"$binary" config check "$kubernetes/base/tokenrouter.toml" > /dev/null

say "Prometheus rules, and what the dashboard asks"
"$promtool" check rules examples/deploy/alerts.yml
"$promtool" test rules tests/deploy/alerts.yml
"$python" tests/deploy/queries.py examples/deploy/grafana.json > "$folder/dashboard.yml"
"$promtool" check rules "$folder/dashboard.yml"

say "OpenAPI"
"$tools/python/bin/openapi-spec-validator" host/server/openapi.json

# As a ConfigMap is mounted: a file is a link into ..data, which is a link to a folder that is replaced.
mount=$folder/mount
mkdir -p "$mount/..first" "$folder/state"
sed 's/0\.0\.0\.0:8080/127.0.0.1:0/' "$kubernetes/base/tokenrouter.toml" > "$mount/..first/tokenrouter.toml"
ln -s ..first "$mount/..data"
ln -s ..data/tokenrouter.toml "$mount/tokenrouter.toml"
strace --follow-forks --quiet=all --output="$folder/calls" "$binary" serve \
    --config "$mount/tokenrouter.toml" --data-dir "$folder/state" > "$folder/out" 2> "$folder/log" &
server=$!
for _ in $(seq 1 600); do
    url=$(grep -oE 'http://127\.0\.0\.1:[0-9]+' "$folder/out" | head -n 1 || true)
    [ -z "$url" ] || break
    kill -0 "$server" 2> /dev/null || { cat "$folder/log"; echo "the server did not start"; exit 1; }
    sleep 0.1
done

say "answers of a running server, held against their schemas"
"$python" tests/deploy/answers.py "$url" policies/prebuilt/margin.wasm

say "/metrics"
curl --silent --fail "$url/metrics" > "$folder/metrics"
"$promtool" check metrics < "$folder/metrics"

say "a ConfigMap that is replaced"
mkdir "$mount/..second"
sed 's/^fallback = .*//' "$mount/..first/tokenrouter.toml" > "$mount/..second/tokenrouter.toml"
ln -s ..second "$mount/..new"
mv --no-target-directory "$mount/..new" "$mount/..data"
for _ in $(seq 1 100); do
    reloads=$(curl --silent --fail "$url/admin/config" | grep -oE '"reloads":[0-9]+' || true)
    [ "$reloads" != '"reloads":1' ] || break
    sleep 0.1
done
[ "$reloads" = '"reloads":1' ] || { curl "$url/admin/config"; echo "the new file is not in force"; exit 1; }

say "system calls, held against the unit's filter"
stop
"$python" tests/deploy/calls.py "$folder/calls" examples/deploy/tokenrouter.service
