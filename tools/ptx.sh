#!/usr/bin/env bash
# Runs groups of tests with cuda:0 alone, over the libcuda of the tests: NVRTC compiles every kernel, and the executor
# of PTX (tests/ptx) runs it, looking for races, reads of what nobody wrote, accesses out of bounds and barriers that
# not all lanes reach. Needs a build with -DHEDDLE_CUDA=ON, and libnvrtc where the loader finds it; no GPU.
#   tools/ptx.sh                       conformance, kernels, autograd and parity
#   tools/ptx.sh kernels [FILTER]      one group, or what a filter of its tests names
# PRESET names the build (release).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/${PRESET:-release}
groups=("${1:-}")
[ -n "${1:-}" ] || groups=(kernels conformance autograd parity)
[ -e "$build/fake-cuda/libcuda.so.1" ] || { echo "ptx: $build has no fake-cuda/libcuda.so.1 (-DHEDDLE_CUDA=ON)" >&2; exit 1; }

export LD_LIBRARY_PATH="$PWD/$build/fake-cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export HEDDLE_TEST_PTX=1 HEDDLE_CUDA_LINES=1
# No other driver: every test runs on the executor, or is skipped, visibly.
export OCL_ICD_VENDORS=/nonexistent VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent
failed=()
for group in "${groups[@]}"; do
  echo "== $group on cuda:0 over the executor of PTX"
  "$build/bin/heddle_tests_$group" --gtest_brief=1 --gtest_filter="${2:-*}" || failed+=("$group")
done
[ ${#failed[@]} -eq 0 ] || { echo "ptx: failed: ${failed[*]}" >&2; exit 1; }
echo "ptx: clean"
