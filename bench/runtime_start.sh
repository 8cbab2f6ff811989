#!/usr/bin/env bash
# From the start of a program to its first result, in turns: the library with cold caches, the runtime on a compiled file
# with cold caches, the runtime again, and the runtime with cold caches of Heddle beside a driver's cache that two starts
# have filled, which is what a program gains that brings the driver's folder (MESA_SHADER_CACHE_DIR) along. Wall
# milliseconds and their medians; sizes of the runtime, stripped.
#   bench/runtime_start.sh NET.onnx NAME=INPUT.npy DEVICE [ROUNDS]
# The model's first dimension is called N. Needs build/release with heddle_example_run_model (PRESET_DIR: elsewhere).
set -euo pipefail
net=$1 input=$2 device=$3 rounds=${4:-5}
build=${PRESET_DIR:-$(dirname "$0")/../build/release}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HEDDLE_QUIET=1 HEDDLE_CACHE_DIR=$scratch/h POCL_CACHE_DIR=$scratch/p MESA_SHADER_CACHE_DIR=$scratch/m

cold() {
  rm -rf "$scratch"/{h,p,m}
  mkdir "$scratch"/{h,p,m}
}
milliseconds() {
  local begin end
  begin=$(date +%s%N)
  "$@" > "$scratch/said"
  end=$(date +%s%N)
  echo $(((end - begin) / 1000000))
}
median() { sort -n | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }

cold
"$build/bin/heddle" compile "$net" --targets "${device%%:*}" --buckets N=1 -o "$scratch/net.heddle"
run=("$build/bin/heddle_example_run_model" "$scratch/net.heddle" "$device" "$scratch/out")
for ((i = 0; i < rounds; ++i)); do
  cold
  milliseconds "$build/bin/heddle" run "$net" --input "$input" --output "$scratch/folder" --device "$device" >> "$scratch/library"
  cold
  milliseconds "${run[@]}" >> "$scratch/runtime"
  milliseconds "${run[@]}" >> "$scratch/again"
  "${run[@]}" > "$scratch/said"
  rm -rf "$scratch/h"
  mkdir "$scratch/h"
  milliseconds "${run[@]}" >> "$scratch/brought"
done
for kind in library runtime again brought; do
  echo "$device $kind: $(median < "$scratch/$kind") ms of $(tr '\n' ' ' < "$scratch/$kind")"
done
strip -o "$scratch/small" "$build/lib/libheddle_runtime.so"
echo "libheddle_runtime, stripped: $(stat -c %s "$scratch/small") bytes"
