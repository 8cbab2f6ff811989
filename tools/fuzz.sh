#!/usr/bin/env bash
# Fuzzes every reader of files and texts (tests/fuzz) with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer,
# one after the other on one core.
#   tools/fuzz.sh [SECONDS [TARGET...]]      seconds for each target (default 10); 3600 for a night
#   BUILT=1 tools/fuzz.sh ...                with the programs as they lie in build/
# An input may take a second and 1.5 GB. Corpora grow in build/fuzz/corpus; what is found lies in build/fuzz/found, and
# the script ends with exit code 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-10}
shift || true
if [ -z "${BUILT:-}" ]; then
  tools/setup.sh --fuzz
  tools/build.sh release heddle heddle_fuzz_smoke
  tools/build.sh fuzz heddle_fuzz
fi

corpus=build/fuzz/corpus found=build/fuzz/found
build/release/bin/heddle_fuzz_smoke --seeds "$corpus"
mkdir -p "$found"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=($(cd "$corpus" && ls -d */ | tr -d /))

# Leaks are looked for once, at the end of each target: libFuzzer's own check after each input doubles its time.
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0:max_allocation_size_mb=2048 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
status=0 total=0
for target in "${targets[@]}"; do
  log="$found/$target.log"
  dictionary=()
  [ ! -s "$corpus/$target.dict" ] || dictionary=(-dict="$corpus/$target.dict")
  if HEDDLE_FUZZ_TARGET=$target build/fuzz/bin/heddle_fuzz -max_total_time="$seconds" -timeout=1 \
    -rss_limit_mb=1536 -max_len=65536 -detect_leaks=0 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$found/$target-" "${dictionary[@]}" "$corpus/$target" >"$log" 2>&1; then
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    total=$((total + inputs))
    echo "$target: $inputs inputs"
  else
    status=1
    echo "$target: FOUND; see $log" >&2
    grep -m3 -E 'ERROR|runtime error|fuzz:' "$log" >&2 || true
  fi
done
echo "fuzz: $total inputs"
exit $status
