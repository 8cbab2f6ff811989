#!/usr/bin/env bash
# Installs every package that Heddle is built, run and tested with on Debian 12, 13 and their relatives (Ubuntu); does
# nothing when all are there. Includes the two CPU drivers (PoCL for OpenCL, Mesa's lavapipe for Vulkan), so that a
# machine without a GPU is a full citizen. A package of `optional` that this release lacks is said in one line, and the
# build leaves out what needs it (cmake/optional.cmake); one of `necessary` is an error. "a|b": releases name it
# differently. Runs as root or through sudo. CUDA is not installed: the backend is built when a toolkit is found
# (cuda.h), and used when a driver is.
#   tools/setup.sh --fuzz    adds what tools/fuzz.sh needs
#   tools/setup.sh --train   installs only what training is built and run with (tools/quickstart.sh): nothing of tests,
#                            benchmarks' peers and ONNX
set -euo pipefail
export LC_ALL=C

necessary=(
  ca-certificates git g++ cmake ninja-build
  libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev
)
optional=(
  # image codecs, Unicode's tables
  libpng-dev "libturbojpeg0-dev|libturbojpeg-dev" libutf8proc-dev
  # Vulkan: headers, loader, compiler, CPU driver
  libvulkan-dev libvulkan-volk-dev glslang-dev spirv-tools mesa-vulkan-drivers
  # OpenCL: headers, loader, CPU driver
  "opencl-headers|opencl-c-headers" "ocl-icd-libopencl1|libopencl1" pocl-opencl-icd
)
# What --train leaves out; of these the first are necessary.
testing_necessary=(libgtest-dev)
testing=(
  ccache
  nodejs  # runs the page of heddle report in a test
  # models of other makers: ONNX's messages, protobuf, ONNX's own test cases
  libonnx-dev libprotobuf-dev protobuf-compiler libonnx-testdata
  # tests of locales: localedef makes one from these
  locales
  # Vulkan's tools
  glslang-tools vulkan-validationlayers
  # SwiftShader, a Vulkan driver with little: a browser's, its library alone is used
  chromium-common
  # worlds of several processes: mpirun and Open MPI's library
  openmpi-bin
  # tests read a CPU driver's machine code
  binutils
  # tools/format.sh
  clang-format-14
  # peers of the benchmarks
  "libdnnl-dev|libonednn-dev" libopenblas-dev libclblast-dev
)
if [ "${1:-}" != --train ]; then
  necessary+=("${testing_necessary[@]}")
  optional+=("${testing[@]}")
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this system has no apt; install the equivalents of: ${necessary[*]} and, as far as they are there, ${optional[*]}" >&2
  exit 1
fi
release=$(. /etc/os-release && echo "$PRETTY_NAME")

# names "a|b": the words a b
names() { tr '|' ' ' <<<"$1"; }
installed() {
  local name
  for name in $(names "$1"); do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] && return 0
  done
  return 1
}
# The first name that this release has.
offered() {
  local name policy
  for name in $(names "$1"); do
    policy=$(apt-cache policy "$name" 2>/dev/null || true)  # not a pipe: grep -q closes it early
    if grep -q '^ *Candidate: [^(]' <<<"$policy"; then echo "$name"; return; fi
  done
}

# Clang and its sanitizers are half a gigabyte that only the fuzzers need.
[ "${1:-}" != --fuzz ] || necessary+=(clang libclang-rt-dev)

missing=()
for package in "${necessary[@]}" "${optional[@]}"; do installed "$package" || missing+=("$package"); done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all $((${#necessary[@]} + ${#optional[@]})) packages are installed"
  exit 0
fi

run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo, to install: ${missing[*]}" >&2; exit 1; }
  run=(sudo)
fi
"${run[@]}" apt-get -q -o Acquire::Retries=3 update

install=() absent=() lacking=()
for package in "${necessary[@]}"; do
  installed "$package" && continue
  name=$(offered "$package")
  [ -n "$name" ] && install+=("$name") || lacking+=("$package")
done
if [ ${#lacking[@]} -gt 0 ]; then
  echo "setup: $release has no package ${lacking[*]}, without which Heddle cannot be built; install it by hand" >&2
  exit 1
fi
for package in "${optional[@]}"; do
  installed "$package" && continue
  name=$(offered "$package")
  [ -n "$name" ] && install+=("$name") || absent+=("$package")
done
[ ${#absent[@]} -eq 0 ] || echo "setup: $release has no package ${absent[*]}: left out, the build goes on without"
if [ ${#install[@]} -gt 0 ]; then
  echo "setup: installing ${install[*]}"
  get() { "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@"; }
  if ! get "${install[@]}"; then  # one that cannot be fetched must not keep the others away
    for package in "${install[@]}"; do
      get "$package" || echo "setup: $package could not be installed" >&2
    done
    for package in "${necessary[@]}"; do
      installed "$package" || { echo "setup: Heddle cannot be built without $package" >&2; exit 1; }
    done
  fi
fi
echo "setup: done"
