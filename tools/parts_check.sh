#!/usr/bin/env bash
# The same bits by 1, 2 and 4 ranks: a recipe trained with --parts 4, clipping, and dropout where it has that, with and
# without shards.
# Prints a line for each run, with the SHA-256 of its parameters; ends with 1 where they differ. Those of zero3, which
# cuts a step elsewhere, are compared with each other. Open MPI is needed.
#   tools/parts_check.sh [RECIPE [STEPS [BATCH [DEVICE]]]]        mnist-cnn 200 16 opencl:0; BUILD: the build folder
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

recipe=${1:-mnist-cnn} steps=${2:-200} batch=${3:-16} device=${4:-opencl:0}
source tools/ranks.bash
need mpirun

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Devices of one kind are of one number of processors as well, by which kernels are chosen.
export POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 LP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HEDDLE_QUIET=1

# Prints the SHA-256 of the tensors of the run's model: what lies behind its header, which names the options.
tensors() {
  local header
  header=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
  tail -c "+$((header + 9))" "$1" | sha256sum | cut -d ' ' -f 1
}

dropout=(--set model.dropout=0.1)
[ "$recipe" != mnist-mlp ] || dropout=()

wanted="" failed=0
for run in "1 none" "2 none" "4 none" "2 zero1" "4 zero1" "2 zero2" "4 zero2" "4 zero2 dp=2,fsdp=2" "1 zero3" "2 zero3" \
  "4 zero3" "4 zero3 dp=2,fsdp=2"; do
  read -r ranks sharding mesh <<< "$run"
  [ "$run" != "1 zero3" ] || wanted=""
  out=$folder/$ranks-$sharding-$mesh
  words=(train "$recipe" --parts 4 --batch "$batch" --steps "$steps" --device "$device" --sharding "$sharding"
    "${dropout[@]}" --clip-norm 0.5 --optimizer adamw --limit-test 16 --out "$out" --seed 3)
  [ -z "$mesh" ] || words+=(--mesh "$mesh")
  [ "$ranks" = 1 ] || words=(launch -n "$ranks" -- "${words[@]}")
  "$heddle" "${words[@]}" > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  sum=$(tensors "$out/model.safetensors")
  echo "$ranks ranks, --sharding $sharding${mesh:+ --mesh $mesh}: $sum"
  [ -n "$wanted" ] || wanted=$sum
  [ "$sum" = "$wanted" ] || failed=1
done
[ "$failed" = 0 ] || { echo "parts_check: parameters differ"; exit 1; }
