#!/usr/bin/env bash
# How long a training of two ranks that share states stands for a checkpoint that is written beside it, by one that it
# waits for: the same run with both, and without checkpoints. Two ratios: of the time in which training itself stood
# (`stall_ms` of the events), and of all that the run took longer, in which the writing threads' use of the ranks'
# processors is as well. Open MPI is needed.
#   tools/save_check.sh [WIDTH [STEPS [EVERY [SHARDING]]]]        mnist-mlp of two layers: 2048 60 20 zero1
#   BUILD: the build folder, build/release; DEVICE: opencl:0; OUT: where the run's folder is made, /tmp
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

width=${1:-2048} steps=${2:-60} every=${3:-20} sharding=${4:-zero1}
source tools/ranks.bash
need mpirun
folder=$(mktemp -d -p "${OUT:-/tmp}")
trap 'rm -rf "$folder"' EXIT
export HEDDLE_QUIET=1

# train NAME EVERY [OPTION...]: prints the seconds of the updates behind the first ten.
train() {
  local name=$1 each=$2
  shift 2
  "$heddle" launch -n 2 -- train mnist-mlp --set model.hidden="$width,$width" --optimizer adamw --batch 64 --seed 3 \
    --steps "$steps" --sharding "$sharding" --limit-test 16 --eval-every 1000000 --checkpoint-every "$each" \
    --keep-last 1 --device "${DEVICE:-opencl:0}" --out "$folder/$name" "$@" > "$folder/log" 2>&1 ||
    { cat "$folder/log" >&2; exit 1; }
  grep '"event":"step"' "$folder/$name/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*"seconds":\([0-9.e+-]*\)}/\1 \2/' |
    awk '$1 >= 10 && !begin { begin = $2 } { end = $2 } END { print end - begin }'
}
# The median of the times that training stood, in ms, but of the last save, which nothing is beside.
stall() {
  grep '"event":"checkpoint"' "$folder/$1/metrics.jsonl" | sed 's/.*"stall_ms":\([0-9.e+-]*\)}/\1/' | head -n -1 |
    sort -g | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}
divide() { awk "BEGIN { printf \"%.3f\", ($1) / ($2) }"; }

none=$(train none 1000000) beside=$(train beside "$every") waited=$(train waited "$every" --no-save-beside)
bytes=$(du -cb "$folder/beside/checkpoints/" | tail -n 1 | cut -f 1)
saves=$(((steps - 1) / every))
echo "mnist-mlp of $width x $width, $sharding, checkpoints of $bytes bytes, $saves of them in $((steps - 10)) updates"
echo "training stood $(stall beside) ms for one beside it, $(stall waited) ms for one that it waited for:" \
  "$(divide "$(stall beside)" "$(stall waited)")"
echo "the run took $none s without, $beside s with those beside it, $waited s with those waited for:" \
  "$(divide "$beside - $none" "$waited - $none")"
