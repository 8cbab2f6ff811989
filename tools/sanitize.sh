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

# Where a library's thread-local memory happens to begin 16 bytes into a page, GCC 12's runtime takes what stands before
# it for glibc 2.19's header, and the search for leaks reads from there (intercept_tls_get_addr).
export ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 TSAN_OPTIONS=halt_on_error=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# The drivers (LLVM inside PoCL and lavapipe) are not ours to sanitise: no test of these groups may open one.
export OCL_ICD_VENDORS=/nonexistent VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent HEDDLE_DEVICE=reference:0
for group in "${groups[@]}"; do
  echo "== $group ($preset)"
  "build/$preset/bin/heddle_tests_$group" --gtest_brief=1
done
echo "sanitize: clean"
