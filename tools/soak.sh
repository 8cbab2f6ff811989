#!/usr/bin/env bash
# Eight threads that share one device and record, run, compile, read and free for a minute; every value is checked, and
# the throughput is compared with one thread's.
#   tools/soak.sh [DEVICE [SECONDS [THREADS]]]        under ThreadSanitizer; null:0, whose values are not checked
#   PRESET=release tools/soak.sh opencl:0             without it: values and throughput
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${PRESET:-tsan}
device=${1:-null:0}
tools/build.sh "$preset" heddle_soak
export TSAN_OPTIONS=halt_on_error=1
# The drivers (LLVM inside PoCL and lavapipe) are not ours to sanitise.
case $device in
  null*|reference*) export OCL_ICD_VENDORS=/nonexistent VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent ;;
esac
"build/$preset/bin/heddle_soak" "$device" "${2:-60}" "${3:-8}"
