#!/usr/bin/env bash
# Builds tokenrouter with CUDA on a machine without a GPU and without a CUDA installation.
#
# The compiler and the libraries to link with come from PyPI into a virtual environment. The driver's library is part of
# a driver, so a stub with the driver's symbols stands in for it while linking; the real one is found at run time.
#
#   tests/gpu/build.sh [TOOLS]       TOOLS: where the compiler is kept; default target/cuda-tools
#
# CUDA_COMPUTE_CAP chooses the GPU (90: H100, H200; default), CARGO_TARGET_DIR the place of the build. Arguments for cargo
# other than those of the release build go into CARGO_FLAGS.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$(realpath -m "${1:-target/cuda-tools}")

if [ ! -x "$tools/venv/bin/pip" ]; then
    python3 -m venv "$tools/venv"
fi
"$tools/venv/bin/pip" install --quiet "nvidia-cuda-nvcc==13.0.*" "nvidia-cuda-runtime==13.0.*" \
    "nvidia-cuda-cccl==13.0.*" "nvidia-cuda-crt==13.0.*" "nvidia-nvvm==13.0.*" "nvidia-cublas==13.0.*" \
    "nvidia-cuda-nvrtc==13.0.*" "nvidia-curand==10.4.*"
cuda=$(echo "$tools"/venv/lib/python3*/site-packages/nvidia/cu13)

# The packages hold versioned libraries only, and not where a CUDA installation has them.
mkdir -p "$cuda/lib64/stubs" "$cuda/lib/stubs"
for library in cublas cublasLt cudart curand nvrtc; do
    versioned=$(ls "$cuda/lib/lib$library.so".* | head -n 1)
    ln -sf "$versioned" "$cuda/lib/lib$library.so"
    ln -sf "$versioned" "$cuda/lib64/lib$library.so"
done
ln -sf "$cuda/lib/libcudadevrt.a" "$cuda/lib/libcudart_static.a" "$cuda/lib64/"

# The stub of the driver: an empty function for every one that the bindings name.
cargo fetch --locked --quiet
cudarc=$(cargo metadata --locked --format-version 1 --features tokenrouter/cuda |
    python3 -c 'import json, sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "cudarc"))')
grep --recursive --only-matching --no-filename --extended-regexp 'fn cu[A-Z][A-Za-z0-9_]*' "$(dirname "$cudarc")/src/driver/sys" |
    awk '{ print "void " $2 "(void) {}" }' | sort --unique > "$tools/stub.c"
gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$cuda/lib/stubs/libcuda.so" "$tools/stub.c"
cp "$cuda/lib/stubs/libcuda.so" "$cuda/lib64/stubs/"

export CUDA_HOME=$cuda CUDA_PATH=$cuda NVCC=$cuda/bin/nvcc PATH=$cuda/bin:$PATH
export CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90} CUDARC_CUDA_VERSION=13000
export CPATH=$cuda/include/cccl NVCC_APPEND_FLAGS="-I$cuda/include -I$cuda/include/cccl -L$cuda/lib -L$cuda/lib64"
# shellcheck disable=SC2086
cargo build --release --locked --features cuda -p tokenrouter ${CARGO_FLAGS:-}
