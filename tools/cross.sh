#!/usr/bin/env bash
# Builds Heddle for another system than this one, packs what runs there, and with `test` runs it here: Windows by Wine,
# 64-bit ARM by qemu.    tools/cross.sh windows|arm64 [test]
set -euo pipefail
system=${1:-}
script=$(dirname "${BASH_SOURCE[0]}")/cross/$system.sh
if [ -z "$system" ] || [ ! -f "$script" ]; then
  echo "usage: tools/cross.sh windows|arm64 [test]" >&2
  exit 2
fi
shift
exec bash "$script" "$@"
