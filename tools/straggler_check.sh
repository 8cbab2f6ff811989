#!/usr/bin/env bash
# Two ranks of which one is slow: at which update it is named, and what --balance makes of their speeds. What makes it
# slow is half of a processor (a cgroup's limit, as root), a busy loop beside it, or a driver of another kind.
# Prints the speed of each rank alone, as it is then, of both with equal shares, and with shares by speed.
#   tools/straggler_check.sh [RECIPE [BATCH [STEPS [DEVICE0,DEVICE1 [SLOW]]]]]
#   mnist-cnn 256 120 opencl:0,opencl:0 half; SLOW: half, none, or a number of busy loops, which is 1 where there is no
#   cgroup to be had; BUILD: the build folder, build/release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

recipe=${1:-mnist-cnn} batch=${2:-256} steps=${3:-120} devices=${4:-opencl:0,opencl:0} slow=${5:-half}
source tools/ranks.bash
need mpirun taskset
[ "$(nproc)" -ge 2 ] || skip "two processors are needed"

folder=$(mktemp -d) busy=() group="" launched=""
cleanup() {
  for pid in "${busy[@]}" $launched; do kill "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  [ -z "$group" ] || rmdir "$group" 2> /dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
export HEDDLE_QUIET=1
# The ranks of a launch take equal parts of the processors: rank 1 of 2 the last half.
last=$(($(nproc) / 2))-$(($(nproc) - 1))
first=0-$(($(nproc) / 2 - 1))

# A group of processes that get half of the last half of the processors: 5 of each 10 ms.
make_group() {
  local period=10000 quota=$((5000 * ($(nproc) - $(nproc) / 2)))
  group=/sys/fs/cgroup/cpu/heddle-$$
  if mkdir "$group" 2> /dev/null; then  # the first kind of cgroups
    echo $period > "$group/cpu.cfs_period_us" && echo $quota > "$group/cpu.cfs_quota_us" && return
  else
    group=/sys/fs/cgroup/heddle-$$
    mkdir "$group" 2> /dev/null && echo "$quota $period" 2> /dev/null > "$group/cpu.max" && return
  fi
  rmdir "$group" 2> /dev/null || true
  group=""
  return 1
}
if [ "$slow" = half ] && ! make_group 2> /dev/null; then slow=1; fi
if [ "$slow" != half ] && [ "$slow" != none ]; then
  for ((i = 0; i < slow; ++i)); do
    taskset -c "$last" bash -c 'while :; do :; done' &
    busy+=($!)
  done
fi
slow_down() { [ -z "$group" ] || echo "$1" > "$group/cgroup.procs"; }

options=(--limit-test 16 --eval-every 1000000 --checkpoint-every 1000000 --seed 3)
# Of the lines of updates behind update $2: the median of their speeds.
speed() {
  grep '"event":"step"' "$1/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*"samples_per_second":\([0-9.e+]*\).*/\1 \2/' |
    awk -v after="$2" '$1 > after { print $2 }' | sort -g | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}
# alone DEVICE PROCESSORS FOLDER [slow]
alone() {
  (
    [ -z "${4:-}" ] || slow_down "$BASHPID"
    exec taskset -c "$2" env POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 LP_NUM_THREADS=1 "$heddle" train \
      "$recipe" --batch $((batch / 2)) --steps $((steps / 2)) --device "$1" "${options[@]}" --out "$folder/$3"
  ) > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  speed "$folder/$3" $((steps / 4))
}
# The process of rank 1, once it is there.
second_rank() {
  local pid looks mpirun
  for ((looks = 0; looks < 1000; ++looks)); do
    mpirun=$(pgrep -P "$launched" -x "mpirun|prterun" | head -n 1) || true
    for pid in $([ -z "$mpirun" ] || pgrep -P "$mpirun"); do
      ! tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | grep -qx OMPI_COMM_WORLD_RANK=1 || { echo "$pid"; return; }
    done
    sleep 0.01
  done
  return 1
}
together() {
  local out=$1 code=0
  shift
  "$heddle" launch -n 2 --devices "$devices" -- train "$recipe" --batch "$batch" --steps "$steps" "${options[@]}" \
    --out "$folder/$out" "$@" > "$folder/log" 2>&1 &
  launched=$!
  [ -z "$group" ] || slow_down "$(second_rank)"
  wait "$launched" || code=$?
  launched=""
  [ $code = 0 ] || { cat "$folder/log" >&2; exit 1; }
}
event() { grep "\"event\":\"$2\"" "$folder/$1/metrics.jsonl" || true; }

one=$(alone "${devices%,*}" "$first" one) two=$(alone "${devices#*,}" "$last" two slow)
echo "$recipe, batch $batch, $devices, rank 1 slow by $slow: alone $one and $two samples/s"
together equal
named=$(event equal straggler | head -n 1 | sed 's/.*"step":\([0-9]*\),"rank":\([0-9]*\),.*/rank \2 at update \1/')
echo "equal shares: $(speed "$folder/equal" $((steps / 2))) samples/s; named: ${named:-nobody}"
together balanced --balance
changed=$(event balanced shares | tail -n 1)
settled=$(echo "$changed" | sed 's/.*"step":\([0-9]*\),.*/\1/')
both=$(speed "$folder/balanced" $((${settled:-0} + 10)))
echo "shares by speed: $both samples/s, $(awk "BEGIN { printf \"%.2f\", $both / ($one + $two) }") of the sum alone;" \
  "examples by rank ${changed##*\"examples\":}" "after $(event balanced shares | wc -l) changes"
