#!/usr/bin/env bash
# Every translation unit of the tree through every compiler here, strictly C++20, without making code; one line a
# compiler, and what it said in build/PRESET/compilers/NAME.log.
#   tools/compilers.sh [--every N] [--only REGEX] [COMPILER...]     e.g.  tools/compilers.sh --every 8 g++-13 clang++-19
# Without names: all of g++-12 and later and clang++-14 and later that are installed. --every N: each N-th file only;
# --only: files whose path matches. The flags are those of build/PRESET (PRESET: release), which is configured if need
# be, with warnings as errors; a file that was not reached counts as one that fails. In a bare system:
#   tools/fresh.sh trixie 'tools/setup.sh && apt-get install -y python3 g++-12 g++-13 clang-{15..19} && tools/compilers.sh'
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

every=1 only=.
while [ $# -gt 0 ]; do
  case $1 in
    --every) every=${2:?--every needs a number}; shift 2 ;;
    --only) only=${2:?--only needs a pattern}; shift 2 ;;
    -*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) break ;;
  esac
done
[[ $every =~ ^[1-9][0-9]*$ ]] || { echo "compilers: --every $every is no positive number" >&2; exit 2; }
compilers=("$@")
if [ ${#compilers[@]} -eq 0 ]; then
  for name in g++-{12..30} clang++-{14..40}; do
    ! command -v "$name" >/dev/null || compilers+=("$name")
  done
fi
[ ${#compilers[@]} -gt 0 ] || { echo "compilers: none of g++-12 or later, clang++-14 or later is installed" >&2; exit 2; }
for name in "${compilers[@]}"; do
  command -v "$name" >/dev/null || { echo "compilers: no $name here" >&2; exit 2; }
done

preset=${PRESET:-release} build=build/${PRESET:-release}
[ -f "$build/compile_commands.json" ] || cmake --preset "$preset" >/dev/null
out=$build/compilers
mkdir -p "$out"

# One line for each file: its folder and its command without compiler, output and code generation, as one shell text.
python3 - "$build/compile_commands.json" "$every" "$only" >"$out/commands" <<'END'
import json, os, re, shlex, sys
entries = {e["file"]: e for e in json.load(open(sys.argv[1]))}
chosen = [e for f, e in sorted(entries.items()) if os.path.exists(f) and re.search(sys.argv[3], f)]
for entry in chosen[:: int(sys.argv[2])]:
    words = shlex.split(entry["command"])
    words = words[next(i for i, w in enumerate(words) if w.startswith("-")) :]  # a launcher may stand first
    kept, skip = [], False
    for word in words:
        if not skip and not re.match(r"-(o|c|include|O\d?|g\d?|fsanitize.*|Winvalid-pch)$", word):
            kept.append(word)
        skip = word in ("-o", "-include")  # a precompiled header would be of another compiler, and hides what is missing
    print(entry["directory"], shlex.join(kept), sep="\t")
END
files=$(wc -l <"$out/commands")
[ "$files" -gt 0 ] || { echo "compilers: no file matches" >&2; exit 2; }

check() {  # COMPILER EXTRA-FLAGS "FOLDER\tFLAGS"
  local folder=${3%%$'\t'*} flags=${3#*$'\t'}
  cd "$folder" && eval "$1 $2 -fsyntax-only -pedantic -Werror $flags" 2>&1 || { echo "FAILED: ${flags##* }"; return; }
  echo "PASSED: ${flags##* }"
}
export -f check
status=0
for name in "${compilers[@]}"; do
  extra=
  [[ $name != *clang* ]] || extra="-Wno-unknown-warning-option"
  log=$out/$(basename "$name").log
  xargs -d '\n' -P "${JOBS:-$(nproc)}" -I '{}' bash -c 'check "$@"' _ "$name" "$extra" '{}' <"$out/commands" >"$log" || true
  failed=$((files - $(grep -c '^PASSED: ' "$log" || true)))  # a file that was never reached did not pass
  version=$("$name" -dumpfullversion -dumpversion)
  if [ "$failed" -eq 0 ]; then
    echo "$name ($version): $files files, no error and no warning"
  else
    echo "$name ($version): $failed of $files files did not pass: $log"
    status=1
  fi
done
exit $status
