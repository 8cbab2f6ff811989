#!/usr/bin/env bash
# Formats all C++ of the tree as .clang-format says; `tools/format.sh check` changes nothing, names what differs and
# exits with 1. Releases of clang-format disagree in details: the tree is formatted by release 14 (Debian 12's). Where
# there is none, `check` exits with 77 (skipped).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=
for name in clang-format-14 clang-format; do
  if "$name" --version 2>/dev/null | grep -q 'version 14\.'; then program=$name; break; fi
done
if [ -z "$program" ]; then
  echo "format: clang-format 14 is not installed: skipped" >&2
  [ "${1:-}" = check ] && exit 77
  exit 2
fi
# No list from git: a source archive is checked as well.
files() { find . -path './build*' -prune -o \( -name '*.h' -o -name '*.cpp' \) -print0; }
case "${1:-}" in
  check) files | xargs -0 -P "$(nproc)" -n 40 "$program" --dry-run -Werror ;;
  "") files | xargs -0 -P "$(nproc)" -n 40 "$program" -i ;;
  *) echo "usage: tools/format.sh [check]" >&2; exit 2 ;;
esac
