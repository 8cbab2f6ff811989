#!/usr/bin/env bash
# Checks Heddle on a machine with an NVIDIA GPU that has no package registry.
#   tools/gpu_check.sh pack   here: builds the release preset and collects programs and the libraries they need in .gpu/ (ignored by git)
#   tools/gpu_check.sh run    there, with .gpu/ carried along: conformance, kernels and parity tests, then benchmarks on cuda:0 and vulkan:0
# `run` writes all output to ${OUT:-gpu_check_out}/gpu_check.log, goes on after a failure, takes less than ten minutes, and exits with the number
# of failed parts.
# The programs are this system's (glibc 2.36 or newer runs them); drivers are always that machine's own.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bundle=.gpu

pack() {
  set -e
  tools/build.sh release
  rm -rf "$bundle"
  mkdir -p "$bundle/bin" "$bundle/lib"
  cp build/release/bin/heddle build/release/bin/heddle_tests_{conformance,kernels,parity} "$bundle/bin/"
  # Everything that the programs link, but glibc itself; and the Vulkan loader, which is opened at run time.
  ldd "$bundle"/bin/* | awk '/=> \//{print $3}' | sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | xargs -r -I{} cp -L {} "$bundle/lib/"
  cp -L /usr/lib/*/libvulkan.so.1 "$bundle/lib/" 2>/dev/null || echo "gpu_check: no Vulkan loader to carry" >&2
  strip --strip-unneeded "$bundle"/bin/* "$bundle"/lib/* 2>/dev/null || true
  [ -d ../shared/data/mnist ] && cp -r ../shared/data/mnist "$bundle/mnist"
  du -sh "$bundle"
}

failed=0
part() {  # part NAME SECONDS COMMAND...
  local name=$1 limit=$2 started=$SECONDS
  shift 2
  if timeout "$limit" "$@" >"$logs/$name.log" 2>&1; then
    echo "ok      $name ($((SECONDS - started)) s)"
  else
    echo "FAILED  $name (exit $?, $((SECONDS - started)) s)"
    tail -n 15 "$logs/$name.log" | sed 's/^/        /'
    failed=$((failed + 1))
  fi
  { echo "== $name"; cat "$logs/$name.log"; } >>"$out/gpu_check.log"
}

run() {
  out=${OUT:-gpu_check_out} logs=$bundle/logs
  [ -x "$bundle/bin/heddle" ] || { echo "gpu_check: $bundle/ is not here; run 'tools/gpu_check.sh pack' first and carry it" >&2; exit 1; }
  mkdir -p "$out" "$logs"
  : >"$out/gpu_check.log"
  export LD_LIBRARY_PATH="$PWD/$bundle/lib:${LD_LIBRARY_PATH:-}" HEDDLE_CACHE_DIR="$PWD/$bundle/cache"
  local icd=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
  [ -f "$icd" ] && export VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || echo "gpu_check: no nvidia-smi here"
  part devices 20 "$bundle/bin/heddle" devices
  cat "$logs/devices.log"
  local data=()
  [ -d "$bundle/mnist" ] && data=(--data "$bundle/mnist")
  for group in kernels conformance parity; do part "$group" 90 "$bundle/bin/heddle_tests_$group"; done
  for device in cuda:0 vulkan:0; do
    local name=${device%%:*}
    part "train-$name" 45 "$bundle/bin/heddle" train mnist-mlp "${data[@]}" --device "$device" --epochs 1 --seed 1 --out "$bundle/runs/$name"
    tail -n 4 "$logs/train-$name.log"
    part "matmul-$name" 30 "$bundle/bin/heddle" bench matmul --device "$device" --cases 1024x1024x1024,4096x4096x4096 --json
    part "elementwise-$name" 30 "$bundle/bin/heddle" bench elementwise --device "$device" --json
    cat "$logs/matmul-$name.log" "$logs/elementwise-$name.log"
  done
  echo "gpu_check: $failed parts failed"
  exit "$failed"
}

case "${1:-}" in
  pack) pack ;;
  run) run ;;
  *) sed -n '2,7p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
