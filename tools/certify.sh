#!/usr/bin/env bash
# Prints docs/certificates.md: installs what Debian has of the vendors' compilers, then compiles every kernel for every
# architecture (26 minutes of processor time, 2026-11-30). NVRTC and nvdisasm come from a CUDA toolkit or from PyPI
# (nvidia-cuda-nvrtc, nvidia-cuda-nvdisasm): LD_LIBRARY_PATH and PATH must lead to them. What is not there is said in
# one line and left out.
#
#   tools/certify.sh [build folder]         # build/release
#   CERTIFY_INSTALL=0 tools/certify.sh      # with what is installed
#
# Exit code: 0, 1 where something failed, 2 for wrong arguments.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -le 1 ] || { echo "usage: tools/certify.sh [build folder]" >&2; exit 2; }
heddle=${1:-build/release}/bin/heddle
[ -x "$heddle" ] || { echo "certify: $heddle is not there; build it first" >&2; exit 2; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
if [ "${CERTIFY_INSTALL:-1}" = 1 ] && command -v apt-get > /dev/null; then
  for package in mesa-vulkan-drivers intel-ocloc intel-opencl-icd; do
    # Debian 12 has ocloc in intel-opencl-icd, Debian 13 in intel-ocloc.
    [ "$package" = intel-opencl-icd ] && command -v ocloc > /dev/null && continue
    dpkg -s "$package" > /dev/null 2>&1 || as_root apt-get install -y --no-install-recommends "$package" > /dev/null 2>&1 ||
      echo "certify: no package $package: left out" >&2
  done
fi

rows=$(mktemp -d) && page=$(mktemp) || exit 1
trap 'rm -rf "$rows" "$page"' EXIT

# Each vendor's compiler in a process of its own; one that is absent (exit code 2) is left out.
for vendor in nvidia amd intel; do
  ( "$heddle" certify --compilers "$vendor" --json > "$rows/$vendor"; echo $? > "$rows/$vendor.code" ) &
done
wait
failed=0
for vendor in nvidia amd intel; do
  code=$(cat "$rows/$vendor.code")
  [ "$code" = 0 ] || [ "$code" = 2 ] || { echo "certify: $vendor ended with $code" >&2; failed=1; }
done
cat "$rows"/nvidia "$rows"/amd "$rows"/intel > "$rows/all"
"$heddle" certify --from "$rows/all" --markdown > "$page" || exit 1
cp "$page" docs/certificates.md
"$heddle" certify --from "$rows/all" --json | tail -n 1
exit $failed
