#!/usr/bin/env bash
# Other people's drivers: `heddle doctor`, losses of three recipes and a selection of the conformance tests on every
# driver of this machine that needs no GPU; kernels under Oclgrind, their SPIR-V under spirv-val, their OpenCL C under
# clang; and one table of what came of it (docs/portability.md).
#   tools/drivers.sh [SECONDS [NAME...]]    checks for so long on each driver (default 60; 0: all checks), or on these,
#                                           what an earlier run left of the others standing
#   tools/drivers.sh install                gets the drivers, into $HEDDLE_DRIVERS (default /opt/heddle-drivers)
#   tools/drivers.sh table                  prints the table of what an earlier run left
# Nothing is installed into the system, but for links to libclc's files, which Mesa reads by their absolute path: packages
# are unpacked, and drivers named by the loaders' variables. It needs heddle_cli, heddle_tests_conformance and
# heddle_tests_kernels. What each driver says is kept in build/release/drivers.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

drivers=${HEDDLE_DRIVERS:-/opt/heddle-drivers}
if [ "${1:-}" = install ]; then
  set -e
  mkdir -p "$drivers/debs" "$drivers/unpacked"
  cd "$drivers/debs"
  wanted=(mesa-opencl-icd oclgrind)
  mapfile -t packages < <(apt-get install -s --no-install-recommends "${wanted[@]}" | awk '/^Inst/{print $2}')
  apt-get download "${wanted[@]}" "${packages[@]}" chromium-common
  for package in *.deb; do dpkg -x "$package" "$drivers/unpacked"; done
  if [ ! -e /usr/lib/clc ] && [ -d "$drivers/unpacked/usr/lib/clc" ]; then ln -s "$drivers/unpacked/usr/lib/clc" /usr/lib/clc; fi
  python3 -m venv "$drivers/intel" && "$drivers/intel/bin/pip" install --quiet intel-opencl-rt intel-cmplr-lib-rt
  exit
fi

bin=$PWD/build/release/bin heddle=$PWD/build/release/bin/heddle out=$PWD/build/release/drivers
if [ "${1:-}" = table ]; then exec python3 tools/drivers_table.py "$out"; fi
seconds=${1:-60} only=" ${*:2} "
[ -x "$heddle" ] || { echo "drivers: build it first (tools/build.sh release heddle_cli)" >&2; exit 2; }
libraries=$(dirname "$(find "$drivers/unpacked" -name 'libRusticlOpenCL.so.1' 2>/dev/null | head -1)")
if [ $# -lt 2 ]; then rm -rf "$out"; fi
for name in "${@:2}"; do rm -rf "$out/$name".* "$out/run-$name"-* "$out/cache-$name" "$out/pocl-$name"; done
mkdir -p "$out/vendors"
export HEDDLE_QUIET=1
# What differs from driver to driver: the contract, every kind of kernel, loops in graphs, casts, order.
selection='*DeviceContract.*DEVICE*:*OpForward.*DEVICE*:*ControlFlow.*DEVICE*:*Casts.*DEVICE*'
selection+=':*StepTest.*DEVICE*:*Rows.*DEVICE*:*LongReduction.*DEVICE*:*Movement.*DEVICE*'

wanted() { [[ -z ${only// } || $only == *" $1 "* ]]; }

# check NAME DEVICE VARIABLE=VALUE...: the doctor's report, losses and tests, as files.
check() {
  local name=$1 device=$2
  shift 2
  wanted "$name" || return 0
  echo "== $name" >&2
  set -- "$@" HEDDLE_CACHE_DIR="$out/cache-$name" POCL_CACHE_DIR="$out/pocl-$name"
  env "$@" "$heddle" doctor --device "$device" --seconds "$seconds" --json --report "$out/$name.json" >"$out/$name.doctor" 2>&1
  local recipe steps
  for recipe in mnist-mlp:200 char-gpt:20 mnist-cnn:10; do
    steps=${recipe#*:} recipe=${recipe%:*}
    env "$@" timeout 600 "$heddle" train "$recipe" --device "$device" --limit-steps "$steps" --seed 1 --json \
      --out "$out/run-$name-$recipe" >"$out/$name.$recipe.losses" 2>"$out/$name.$recipe.error" || true
  done
  if [ -x "$bin/heddle_tests_conformance" ]; then
    env "$@" python3 tools/run_tests.py "$bin/heddle_tests_conformance" "${selection//DEVICE/${device%%:*}}" 600 >"$out/$name.tests"
  fi
}
# An OpenCL driver by its library (or name), alone; a Vulkan driver by its manifest.
opencl() {
  local name=$1 library=$2
  shift 2
  [ -e "$library" ] || ldconfig -p | grep -q "$library" || { echo "== $name: not here ($library)" >&2; return; }
  mkdir -p "$out/vendors/$name"
  echo "$library" >"$out/vendors/$name/driver.icd"
  check "$name" opencl:0 OCL_ICD_VENDORS="$out/vendors/$name" VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent "$@"
}
vulkan() {
  local name=$1 manifest=$2
  shift 2
  [ -e "$manifest" ] || { echo "== $name: not here ($manifest)" >&2; return; }
  check "$name" vulkan:0 OCL_ICD_VENDORS=/nonexistent VK_DRIVER_FILES="$manifest" VK_ICD_FILENAMES="$manifest" "$@"
}

opencl pocl libpocl.so.2 POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES=1
opencl pocl-basic libpocl.so.2 POCL_DEVICES=basic
intel=$(find "$drivers/intel" -name 'libintelocl.so' 2>/dev/null | head -1)
opencl intel "${intel:-libintelocl.so}" LD_LIBRARY_PATH="$(dirname "${intel:-/}")"
opencl rusticl "$libraries/libRusticlOpenCL.so.1" RUSTICL_ENABLE=llvmpipe HEDDLE_REFUSED_DRIVERS=1 LD_LIBRARY_PATH="$libraries"
vulkan lavapipe "$(find /usr/share/vulkan/icd.d -name 'lvp_icd*.json' 2>/dev/null | head -1)"
swiftshader=$(find "$drivers" -name libvk_swiftshader.so 2>/dev/null | head -1)
if [ -n "$swiftshader" ]; then
  echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "'"$swiftshader"'", "api_version": "1.1.0"}}' >"$out/vendors/swiftshader.json"
fi
vulkan swiftshader "$out/vendors/swiftshader.json"

# Kernels one work item after the other, every access and race checked. Small cases: it interprets.
oclgrind=$(find "$drivers/unpacked" -name liboclgrind-rt-icd.so 2>/dev/null | head -1)
if wanted oclgrind && [ -n "$oclgrind" ] && [ -x "$bin/heddle_tests_kernels" ]; then
  echo "== oclgrind" >&2
  mkdir -p "$out/vendors/oclgrind"
  echo "$oclgrind" >"$out/vendors/oclgrind/driver.icd"
  env OCL_ICD_VENDORS="$out/vendors/oclgrind" LD_LIBRARY_PATH="$libraries" VK_DRIVER_FILES=/nonexistent \
    VK_ICD_FILENAMES=/nonexistent OCLGRIND_DATA_RACES=1 OCLGRIND_MAX_ERRORS=1000 OCLGRIND_LOG="$out/oclgrind.log" \
    HEDDLE_CACHE_DIR="$out/cache-oclgrind" HEDDLE_TUNING=none \
    python3 tools/run_tests.py "$bin/heddle_tests_kernels" '*opencl*' 3600 900 >"$out/oclgrind.tests"
fi

# The modules that lavapipe's cache holds: an entry is a header of 128 bytes, the module, and what it was made of.
if wanted lavapipe && [ -d "$out/cache-lavapipe/spirv" ] && command -v spirv-val >/dev/null; then
  echo "== spirv-val" >&2
  python3 - "$out" <<'SPIRV'
import glob, json, subprocess, sys
out, good, bad = sys.argv[1], 0, []
for path in sorted(glob.glob(f"{out}/cache-lavapipe/spirv/*")):
    entry = open(path, "rb").read()
    module = entry[128:128 + int.from_bytes(entry[48:56], "little")]
    if module[:4] != b"\x03\x02\x23\x07":
        continue
    done = subprocess.run(["spirv-val", "--target-env", "vulkan1.1", "-"], input=module, capture_output=True)
    if done.returncode == 0:
        good += 1
    else:
        bad.append(f"{path}: {(done.stdout + done.stderr).decode(errors='replace').strip().splitlines()[0]}")
json.dump({"good": good, "bad": bad}, open(f"{out}/spirv-val.json", "w"))
SPIRV
fi

# The programs that PoCL was given. Declarations come with them (_OPENCL_H_), or from clang's own header.
clang=$(command -v clang || ls /usr/bin/clang-[0-9]* 2>/dev/null | head -1)
if wanted pocl && [ -n "$clang" ] && compgen -G "$out/pocl-pocl/tempfile*.cl" >/dev/null; then
  echo "== clang" >&2
  good=0 bad=0
  for program in "$out"/pocl-pocl/tempfile*.cl; do
    if "$clang" -x cl -cl-std=CL1.2 -target spir64 -Xclang -finclude-default-header -fsyntax-only -w \
      <(sed -n '/^#define HK_\(HAS\|VW\)/,$p' "$program") >>"$out/clang.log" 2>&1; then good=$((good + 1)); else bad=$((bad + 1)); fi
  done
  echo "{\"good\": $good, \"bad\": $bad}" >"$out/clang.json"
fi

python3 tools/drivers_table.py "$out"
