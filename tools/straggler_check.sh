#!/usr/bin/env bash
# Two ranks of which one is slow: at which update it is named, and what --balance makes of their speeds. What makes it
# slow is a busy loop on its processor, or a driver of another kind.
# Prints the speed of each rank alone, as it is then, of both with equal shares, and with shares by speed.
#   tools/straggler_check.sh [RECIPE [BATCH [STEPS [DEVICE0,DEVICE1 [LOOPS]]]]]
#   mnist-cnn 256 120 opencl:0,opencl:0 1; BUILD: the build folder, build/release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

recipe=${1:-mnist-cnn} batch=${2:-256} steps=${3:-120} devices=${4:-opencl:0,opencl:0} loops=${5:-1}
source tools/ranks.bash
need mpirun taskset
[ "$(nproc)" -ge 2 ] || skip "two processors are needed"

folder=$(mktemp -d) busy=()
cleanup() {
  for pid in "${busy[@]}"; do kill "$pid" 2> /dev/null || true; done
  rm -rf "$folder"
}
trap cleanup EXIT
export HEDDLE_QUIET=1
# The ranks of a launch take equal parts of the processors: rank 1 of 2 the last half.
last=$(($(nproc) / 2))-$(($(nproc) - 1))
first=0-$(($(nproc) / 2 - 1))
for ((i = 0; i < loops; ++i)); do
  taskset -c "$last" bash -c 'while :; do :; done' &
  busy+=($!)
done

options=(--limit-test 16 --eval-every 1000000 --checkpoint-every 1000000 --seed 3)
# Of the lines of updates behind update $2: the median of their speeds.
speed() {
  grep '"event":"step"' "$1/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*"samples_per_second":\([0-9.e+]*\).*/\1 \2/' |
    awk -v after="$2" '$1 > after { print $2 }' | sort -g | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}
alone() {
  taskset -c "$2" env POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 LP_NUM_THREADS=1 "$heddle" train "$recipe" \
    --batch $((batch / 2)) --steps $((steps / 2)) --device "$1" "${options[@]}" --out "$folder/$3" \
    > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  speed "$folder/$3" $((steps / 4))
}
together() {
  local out=$1
  shift
  "$heddle" launch -n 2 --devices "$devices" -- train "$recipe" --batch "$batch" --steps "$steps" "${options[@]}" \
    --out "$folder/$out" "$@" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
}
event() { grep "\"event\":\"$2\"" "$folder/$1/metrics.jsonl" || true; }

one=$(alone "${devices%,*}" "$first" one) two=$(alone "${devices#*,}" "$last" two)
echo "$recipe, batch $batch, $devices: alone $one and $two samples/s"
together equal
named=$(event equal straggler | head -n 1 | sed 's/.*"step":\([0-9]*\),"rank":\([0-9]*\),.*/rank \2 at update \1/')
echo "equal shares: $(speed "$folder/equal" $((steps / 2))) samples/s; named: ${named:-nobody}"
together balanced --balance
changed=$(event balanced shares | tail -n 1)
settled=$(echo "$changed" | sed 's/.*"step":\([0-9]*\),.*/\1/')
both=$(speed "$folder/balanced" $((${settled:-0} + 10)))
echo "shares by speed: $both samples/s, $(awk "BEGIN { printf \"%.2f\", $both / ($one + $two) }") of the sum alone;" \
  "examples by rank ${changed##*\"examples\":}" "after $(event balanced shares | wc -l) changes"
