#!/usr/bin/env bash
# Builds with sanitizers and runs the groups that need no driver: unit, null, data, and nn, autograd, training and its
# parity on the reference device.
#   tools/sanitize.sh          AddressSanitizer and UndefinedBehaviorSanitizer
#   tools/sanitize.sh tsan     ThreadSanitizer, on the null, unit, data and distributed groups (allocator, contexts,
#                              registry, caches, loader, the communication thread)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-asan}
groups=(unit null data distributed)
[ "$preset" = tsan ] || groups+=(nn autograd train parity)
tools/build.sh "$preset" "${groups[@]/#/heddle_tests_}"

export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
# The drivers (LLVM inside PoCL and lavapipe) are not ours to sanitise: no test of these groups may open one.
export OCL_ICD_VENDORS=/nonexistent VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent HEDDLE_DEVICE=reference:0
for group in "${groups[@]}"; do
  echo "== $group ($preset)"
  "build/$preset/bin/heddle_tests_$group" --gtest_brief=1
done
echo "sanitize: clean"
