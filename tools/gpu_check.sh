#!/usr/bin/env bash
# Checks Heddle on a machine with an NVIDIA GPU that has no package registry.
#   tools/gpu_check.sh pack   here: builds the release preset and collects programs and the libraries they need in .gpu/ (ignored by git)
#   tools/gpu_check.sh run    there, with .gpu/ carried along: tests on cuda:0 and vulkan:0, then benchmarks, on cuda:0 beside cuBLAS
# `run` writes ${OUT:-gpu_check_out}/gpu_check.log and figures as JSON lines, bench_DEVICE.json; goes on after a
# failure, takes less than ten minutes (every part has a limit), and exits with the number of failed parts. Parts of a
# device that is not there are left out and say so. The programs are this system's (glibc 2.36 or newer runs them);
# drivers are always that machine's own.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bundle=.gpu

pack() {
  set -e
  tools/build.sh release
  rm -rf "$bundle"
  mkdir -p "$bundle/bin" "$bundle/lib"
  cp build/release/bin/heddle build/release/bin/heddle_tests_{conformance,kernels,autograd,parity} "$bundle/bin/"
  # Everything that the programs link, but glibc itself; and the Vulkan loader, which is opened at run time.
  ldd "$bundle"/bin/* | awk '/=> \//{print $3}' | sort -u \
    | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | xargs -r -I{} cp -L {} "$bundle/lib/"
  cp -L /usr/lib/*/libvulkan.so.1 "$bundle/lib/" 2>/dev/null || echo "gpu_check: no Vulkan loader to carry" >&2
  cp -L "$(command -v nvdisasm)" "$bundle/bin/" 2>/dev/null || echo "gpu_check: no nvdisasm to carry (PyPI: nvidia-cuda-nvdisasm)" >&2
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
  export PATH="$PWD/$bundle/bin:$PATH" LD_LIBRARY_PATH="$PWD/$bundle/lib:${LD_LIBRARY_PATH:-}" HEDDLE_CACHE_DIR="$PWD/$bundle/cache"
  local icd=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
  [ -f "$icd" ] && export VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || echo "gpu_check: no nvidia-smi here"
  # cuBLAS and NVRTC are that machine's: in its toolkit, or beside its Python.
  local folder find='import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))'
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib "$(python3 -c "$find" 2>/dev/null)"; do
    [ -d "$folder" ] && LD_LIBRARY_PATH+=":$folder"
  done
  part devices 20 "$bundle/bin/heddle" devices
  cat "$logs/devices.log"
  local data=() devices=() device name
  [ -d "$bundle/mnist" ] && data=(--data "$bundle/mnist")
  for device in cuda:0 vulkan:0; do
    if grep "^$device " "$logs/devices.log" | grep -v "not available" | grep -q "gpu"; then devices+=("$device"); else echo "left out $device: no GPU there"; fi
  done
  # The figures first: a slow test must not cost them.
  for device in "${devices[@]}"; do
    name=${device%%:*}
    local figures="$out/bench_$name.json"
    : >"$figures"
    local peers=()
    [ "$name" = cuda ] && peers=(--peers cublas)
    bench() { part "bench-$1-$name" 60 bash -c '"$@" >>"$0"' "$figures" "$bundle/bin/heddle" bench "${@:2}" --device "$device" --json; }
    bench matmul matmul --dtype f32,f16,bf16 --cases 1024x1024x1024,4096x4096x4096,8192x8192x8192 "${peers[@]}"
    bench others elementwise chain softmax layernorm reduce transpose gather optimizer dispatch copy
    part "train-$name" 25 "$bundle/bin/heddle" train mnist-mlp "${data[@]}" --device "$device" --epochs 1 --seed 1 --out "$bundle/runs/$name"
    tail -n 4 "$logs/train-$name.log"
    cat "$figures"
  done
  # The static model beside the device: 30 schedules and their rank correlation.
  if [[ " ${devices[*]} " == *" cuda:0 "* ]]; then
    part model 120 "$bundle/bin/heddle" certify --measure cuda:0
    tail -n 1 "$logs/model.log"
  fi
  if [ ${#devices[@]} -gt 0 ]; then
    for group in kernels conformance autograd parity; do
      part "$group" 60 "$bundle/bin/heddle_tests_$group" --gtest_filter='*cuda*:*vulkan*:*OnDevice*:*Device*' \
        --gtest_brief=1
    done
  fi
  part resources 20 bash -c 'for set in SCHEDULE=1,TM=128,TN=128,TK=16,RM=8,RN=8,RUN=4,PREFETCH=1 \
    SCHEDULE=5,ELEMENT=0,UNIT_LANES=32,TM=128,TN=128,TK=32,WM=64,WN=64,STAGES=3; do
    "$0" kernel matmul --set "$set" --type TA=f16,TB=f16 --print resources --sm 90; done' "$bundle/bin/heddle"
  cat "$logs/resources.log"
  echo "gpu_check: $failed parts failed"
  exit "$failed"
}

case "${1:-}" in
  pack) pack ;;
  run) run ;;
  *) sed -n '2,8p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
