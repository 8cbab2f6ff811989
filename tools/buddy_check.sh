#!/usr/bin/env bash
# What copies of shared states in the next rank's memory cost an update (docs/distributed.md): ranks of
# `heddle launch --elastic` train without copies and with one every so many updates, in turns. Prints the milliseconds
# of an update of each turn, and the medians of the quotients with those without. mpirun has to be one with ULFM (Open
# MPI 5), and HEDDLE_MPI its library where that is not found; without it the script says so and ends with 0.
#   tools/buddy_check.sh [RECIPE [BATCH [STEPS [TURNS [RANKS [SHARDING [EVERY...]]]]]]]
#   char-gpt 16 80 5 2 zero1 1 10; BUILD: the build folder, build/release; DEVICE: opencl:0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

recipe=${1:-char-gpt} batch=${2:-16} steps=${3:-80} turns=${4:-5} ranks=${5:-2} sharding=${6:-zero1}
shift $(($# < 6 ? $# : 6))
every=("$@")
[ $# -gt 0 ] || every=(1 10)
source tools/ranks.bash
need mpirun
need_ulfm

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HEDDLE_QUIET=1
# milliseconds EVERY: of an update, over all behind the first quarter.
milliseconds() {
  "$heddle" launch -n "$ranks" --elastic -- train "$recipe" --batch "$batch" --steps "$steps" --sharding "$sharding" \
    --buddy-every "$1" --optimizer adamw --device "${DEVICE:-opencl:0}" --seed 3 --limit-test 8 --eval-every 1000000 \
    --checkpoint-every 1000000 "${quiet[@]}" --out "$folder/run" > "$folder/log" 2>&1 ||
    { cat "$folder/log" >&2; exit 1; }
  sed -n 's/.*"event":"step","step":\([0-9]*\),.*"seconds":\([0-9.e+-]*\)}.*/\1 \2/p' "$folder/run/metrics.jsonl" |
    awk -v from=$((steps / 4)) '$1 >= from && (!n || $2 == t) { n = $1; t = $2 } { last = $1; end = $2 }
      END { printf "%.3f\n", (end - t) / (last - n) * 1e3 }'
  rm -rf "$folder/run"
}
for ((turn = 1; turn <= turns; ++turn)); do
  none=$(milliseconds 0)
  line="none $none ms"
  for k in "${every[@]}"; do
    with=$(milliseconds "$k")
    line="$line, every $k: $with ms"
    awk "BEGIN { print $with / $none }" >> "$folder/quotients-$k"
  done
  echo "$recipe, batch $batch, $ranks ranks, $sharding: $line"
done
for k in "${every[@]}"; do
  sort -g "$folder/quotients-$k" | awk -v k="$k" '{ a[NR] = $1 }
    END { printf "every %s: median of the quotients %.3f\n", k, a[int((NR + 1) / 2)] }'
done
