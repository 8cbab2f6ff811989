#!/usr/bin/env bash
# What comparing the calls of ranks before data moves costs a step (docs/distributed.md): two ranks train with it and
# without it (HEDDLE_TEST_UNCOMPARED), in turns. Prints both medians of each turn, and the median of their quotients.
# Where steps scatter by more than that, one call by itself says it: `calls` makes sums of so many floats alone.
#   tools/calls_check.sh [RECIPE [BATCH [STEPS [TURNS]]]]
# `link` says what sums move over a link between two network namespaces (root), one at a time and several under way, in
# turns in pieces of 63 KiB, which is what travels between hosts, and of 256.
# `psum` says what a sum of values of DEVICE over the ranks takes, beside MPI_Allreduce of the host's (mpicc is needed).
#   tools/calls_check.sh calls [ELEMENTS [TURNS]]
#   tools/calls_check.sh psum [TURNS]
#   tools/calls_check.sh link [RATE [TURNS]]
#   char-gpt 16 60 5; 109390 (the gradients of mnist-mlp) 5; 3; 200mbit 3; BUILD: the build folder, build/release;
#   DEVICE: opencl:0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

recipe=${1:-char-gpt} batch=${2:-16} steps=${3:-60} turns=${4:-5}
source tools/ranks.bash
need mpirun

if [[ "$recipe" = @(link|psum|calls) ]]; then
  ranks=$(dirname "$heddle")/heddle_mpi_ranks
  [ -x "$ranks" ] || skip "$ranks is not built"
fi
if [ "$recipe" = link ]; then
  rate=${2:-200mbit} turns=${3:-3}
  source tools/two_hosts.bash
  open_hosts d tc
  link_hosts "$rate"
  for ((turn = 1; turn <= turns; ++turn)); do
    for sums in "131072 40 1" "786432 8 1" "131072 8 6"; do  # elements, rounds, at once
      for piece in 64512 262144; do
        read -r elements rounds at_once <<< "$sums"
        us=$(on_both 10.203.0 "$ranks" calls 60 "$elements" "$rounds" "$at_once" "$piece" 2> "$folder/error" \
          < /dev/null | sed -n 's/^ok \(.*\) us$/\1/p')
        [ -n "$us" ] || { cat "$folder/error" >&2; exit 1; }
        awk "BEGIN { printf \"$rate, %d at once of $elements floats, pieces of $piece: %.1f ms, %.1f MB/s each way\\n\",
          $at_once, $us / 1000, 4 * $elements * $at_once / $us }"
      done
    done
  done
  exit
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export HEDDLE_QUIET=1 HEDDLE_SHARED_LISTS=0  # which would leave nothing to compare
# both PROGRAM...: the microseconds that two ranks of it say.
both() { mpirun -n 2 --oversubscribe --bind-to core "$@" | sed -n 's/^ok \(.*\) us$/\1/p'; }
if [ "$recipe" = psum ]; then
  need mpicc
  turns=${2:-3}
  export POCL_MAX_PTHREAD_COUNT=1 LP_NUM_THREADS=1
  mpicc -O2 -o "$folder/allreduce" bench/peers/allreduce.c 2> /dev/null ||
    skip "mpi.h is not installed (libopenmpi-dev)"
  for elements in 1024 1048576 4194304 16777216; do
    rounds=$((elements > 100000 ? 40 : 2000))
    for ((turn = 1; turn <= turns; ++turn)); do
      ours=$(both "$ranks" psum 60 "$elements" "$rounds" "${DEVICE:-opencl:0}")
      theirs=$(both "$folder/allreduce" "$elements" "$rounds")
      awk "BEGIN { printf \"%d KiB: psum on ${DEVICE:-opencl:0} %.1f us, MPI_Allreduce %.1f us: %.2f, %+.1f us\\n\",
        $elements / 256, $ours, $theirs, $ours / $theirs, $ours - $theirs }"
    done
  done
  exit
fi
if [ "$recipe" = calls ]; then
  elements=${2:-109390} turns=${3:-5}
  for ((turn = 1; turn <= turns; ++turn)); do
    compared=$(both "$ranks" calls 60 "$elements")
    free=$(HEDDLE_TEST_UNCOMPARED=1 both "$ranks" calls 60 "$elements")
    echo "a sum of $elements floats: $compared us compared, $free us not"
    awk "BEGIN { print $compared - $free }" >> "$folder/differences"
  done
  sort -g "$folder/differences" |
    awk '{ a[NR] = $1 } END { printf "median of the differences: %.2f us\n", a[int((NR + 1) / 2)] }'
  exit
fi
# milliseconds NAME: of a step, the median of the run's windows.
milliseconds() {
  "$heddle" launch -n 2 -- train "$recipe" --batch "$batch" --steps "$steps" --device "${DEVICE:-opencl:0}" --seed 3 \
    --limit-test 8 --eval-every 1000000 --checkpoint-every 1000000 "${quiet[@]}" --json \
    --out "$folder/$1" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  sed -n 's/.*"event":"done".*"median_step_ms":\([0-9.e+-]*\),.*/\1/p' "$folder/log"
  rm -rf "${folder:?}/$1"
}
for ((turn = 1; turn <= turns; ++turn)); do
  compared=$(milliseconds compared)
  free=$(HEDDLE_TEST_UNCOMPARED=1 milliseconds free)
  echo "$recipe, batch $batch: $compared ms compared, $free ms not"
  awk "BEGIN { print $compared / $free }" >> "$folder/quotients"
done
sort -g "$folder/quotients" | awk '{ a[NR] = $1 } END { printf "median of the quotients: %.4f\n", a[int((NR + 1) / 2)] }'
