#!/usr/bin/env bash
# Installs every Debian package that Heddle is built, run and tested with; does nothing when all are there.
# Includes the two CPU drivers (PoCL for OpenCL, Mesa's lavapipe for Vulkan), so that a machine without a GPU is a full citizen.
# Runs as root or through sudo. CUDA is not installed: the backend is built when a toolkit is found (cuda.h), and used when a driver is.
set -euo pipefail

packages=(
  # build
  ca-certificates git g++ cmake ninja-build ccache
  libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev libpng-dev libturbojpeg0-dev libutf8proc-dev libgtest-dev
  nodejs  # runs the page of heddle report in a test
  # Vulkan: headers, loader, compiler, tools, layers, CPU driver
  libvulkan-dev libvulkan-volk-dev glslang-dev glslang-tools spirv-tools vulkan-validationlayers mesa-vulkan-drivers
  # OpenCL: headers, loader, CPU driver
  opencl-headers ocl-icd-libopencl1 pocl-opencl-icd
  # peers of the benchmarks
  libdnnl-dev libopenblas-dev libclblast-dev
)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this system has no apt; install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo, to install: ${missing[*]}" >&2; exit 1; }
  run=(sudo)
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${run[@]}" apt-get -q -o Acquire::Retries=3 update
"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 install -y --no-install-recommends "${missing[@]}"
echo "setup: done"
