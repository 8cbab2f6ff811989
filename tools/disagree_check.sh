#!/usr/bin/env bash
# Ranks that disagree or do not answer: another shape, dtype, order of calls, a call that is left out, data that ends
# earlier on one rank, a rank that loops for ever, and one that is stopped (SIGSTOP), in a program of ranks and in a
# training. Each has to end within the limit and 5 s more, with a message that names the rank and the operation, and no
# process may be left. Prints a line for each; ends with 1 where one is not named. Open MPI is needed.
#   tools/disagree_check.sh [COUNT [LIMIT_S]]        5 times each, 3 s; BUILD: the build folder; DEVICE: opencl:0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

count=${1:-5} limit=${2:-3}
source tools/ranks.bash
bin=$(dirname "$heddle")
need mpirun
[ -x "$bin/heddle_mpi_ranks" ] || skip "$bin/heddle_mpi_ranks is not built"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm=isolated
export HEDDLE_QUIET=1 POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 LP_NUM_THREADS=1
failed=0
seconds_since() { awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $1 }"; }

# judge WHAT SECONDS PART...: of the output, which has to have these parts.
judge() {
  local what=$1 took=$2 part missing=""
  shift 2
  for part in "$@"; do grep -qF -- "$part" "$folder/log" || missing="$missing '$part'"; done
  awk "BEGIN { exit !($took > $limit + 5) }" && missing="$missing an end within $((limit + 5)) s"
  pgrep -f "^$bin/heddle_mpi_ranks " > /dev/null && missing="$missing an end of all processes"
  if [ -n "$missing" ]; then
    echo "$what: lacks$missing:"
    tail -n 5 "$folder/log"
    failed=1
  fi
}

# program WHAT PART...: two ranks, of which the second one does what is wrong.
program() {
  local what=$1 most=0 took start n
  shift
  for ((n = 0; n < count; ++n)); do
    start=$(date +%s.%N)
    timeout -s KILL 60 mpirun -n 2 --oversubscribe "$bin/heddle_mpi_ranks" "$what" "$limit" > "$folder/log" 2>&1 || true
    took=$(seconds_since "$start")
    most=$(awk "BEGIN { print ($took > $most) ? $took : $most }")
    judge "$what" "$took" "$@"
  done
  echo "$what: named $count times, $most s at most: $(grep -m 1 '^error: ' "$folder/log" )"
}

program shape "rank 0: all_reduce sum f32 (4) (ranks.cpp:" "rank 1: all_reduce sum f32 (8) (ranks.cpp:"
program dtype "rank 0: all_reduce sum f32 (4) (ranks.cpp:" "rank 1: all_reduce sum f64 (4) (ranks.cpp:"
program order "rank 0: all_gather f32 (4) (ranks.cpp:" "rank 1: all_reduce sum f32 (4) (ranks.cpp:"
program skipped "rank 0: all_gather f32 (4) (ranks.cpp:" "rank 1: all_reduce sum f32 (4) (ranks.cpp:"
program uneven "rank 0 waited $limit s for all_reduce sum f32 (4) (ranks.cpp:" "rank 1 has not made this call"
program loop "rank 0 waited $limit s for all_reduce sum f32 (4) (ranks.cpp:" "rank 1 has not made this call"
program stopped "rank 0 waited $limit s for all_reduce sum f32 (4) (ranks.cpp:" "rank 1 has not made this call"

# The process of rank 1 of a launch.
second_rank() {
  local mpirun pid
  mpirun=$(pgrep -P "$1" -x "mpirun|prterun" | head -n 1) || return 1
  for pid in $(pgrep -P "$mpirun"); do
    tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | grep -qx "OMPI_COMM_WORLD_RANK=1" && echo "$pid" && return 0
  done
  return 1
}
# A training whose second rank is stopped.
training() {
  local n most=0 took start launched victim
  for ((n = 0; n < count; ++n)); do
    rm -rf "$folder/run"
    "$bin/heddle" launch -n 2 -- train mnist-mlp --batch 32 --steps 1000000 --rank-timeout "$limit" --limit-test 16 \
      --device "${DEVICE:-opencl:0}" --eval-every 1000000 --out "$folder/run" > "$folder/log" 2>&1 &
    launched=$!
    until grep -q '"event":"step"' "$folder/run/metrics.jsonl" 2> /dev/null; do
      kill -0 "$launched" 2> /dev/null || { cat "$folder/log"; exit 1; }
      sleep 0.05
    done
    victim=$(second_rank "$launched")
    kill -STOP "$victim"
    start=$(date +%s.%N)
    wait "$launched" || true
    took=$(seconds_since "$start")
    most=$(awk "BEGIN { print ($took > $most) ? $took : $most }")
    judge "training, stopped" "$took" "rank 0 waited $limit s for " "rank 1 has not made this call"
    # mpirun may end a moment before what it killed has gone.
    for _ in $(seq 50); do kill -0 "$victim" 2> /dev/null || break; sleep 0.1; done
    ! kill -0 "$victim" 2> /dev/null || { echo "training, stopped: rank 1 is left"; kill -KILL "$victim"; failed=1; }
  done
  echo "training, stopped: named $count times, $most s at most: $(grep -m 1 'rank 0 waited' "$folder/log")"
}
training
[ "$failed" = 0 ] || { echo "disagree_check: not all were named"; exit 1; }
