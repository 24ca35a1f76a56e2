#!/usr/bin/env bash
# What is to be seen on a machine with an NVIDIA GPU, in under ten minutes and without network: whether the GPU gives the
# processor's tokens, and how fast it makes them. Weights that are not in the binary are made on the spot.
#
#   tests/gpu/check.sh BINARY [RESULTS]     BINARY: tokenrouter built by build.sh, or that as .xz; RESULTS: a folder,
#                                           default gpu-results
#
# The binary finds the driver and the libraries of CUDA 13 (cudart, cublas, curand) where the system has them, or in
# LD_LIBRARY_PATH.
set -uo pipefail
binary=$(realpath "$1")
results=$(realpath -m "${2:-gpu-results}")
mkdir -p "$results"
if [ "${binary%.xz}" != "$binary" ]; then
    xz --decompress --stdout "$binary" > "$results/tokenrouter" || exit 1
    binary=$results/tokenrouter
    chmod +x "$binary"
fi
for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64; do
    [ -d "$folder" ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}${LD_LIBRARY_PATH:+:}$folder
done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}

failed=0
# run NAME SECONDS ARGUMENTS...: one part; the others run whatever becomes of it.
run() {
    local name=$1 seconds=$2
    shift 2
    echo "== $name"
    timeout "$seconds" "$binary" "$@" 2>&1 | tee "$results/$name.txt"
    local code=${PIPESTATUS[0]}
    if [ "$code" -ne 0 ]; then
        echo "== $name failed ($code)"
        failed=1
    fi
}

nvidia-smi | tee "$results/nvidia-smi.txt"

# The same tokens: rounding to bf16 leaves up to a logit or so between the devices, and some near-ties.
run parity-pair 60 bench device --device cuda --model embedded:small --model embedded:large --parity \
    --tolerance 2.5 --json "$results/parity-pair.json"
run parity-random 120 bench device --device cuda --model random:tiny --model random:0.6b --parity \
    --tolerance 0.25 --json "$results/parity-random.json"

# The whole server on the GPU: both models and every built-in policy answer.
cat > "$results/pair.toml" <<'TOML'
[models.small]
files = "embedded:small"
device = "cuda"
kv_mib = 64
[models.large]
files = "embedded:large"
device = "cuda"
kv_mib = 64
[routes."pair/entropy"]
models = ["small", "large"]
policy = "builtin:entropy"
[routes."pair/random-share"]
models = ["small", "large"]
policy = "builtin:random-share"
TOML
run doctor 60 doctor --config "$results/pair.toml"

# Tokens per second in bf16 for 1 to 64 sequences, each model alone and both routed.
run speed 300 bench device --device cuda --model random:0.6b --model random:8b --prompt 128 --tokens 48 \
    --rounds 1 --json "$results/speed.json"

exit $failed
