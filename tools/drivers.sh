#!/usr/bin/env bash
# Other people's drivers: `heddle doctor` and 200 steps of mnist-mlp on every driver of this machine that needs no GPU,
# and one table of what came of it (docs/portability.md).
#   tools/drivers.sh [SECONDS [NAME...]]    checks for so long on each driver, or on these (default 60; 0: all checks)
#   tools/drivers.sh install                gets the drivers, into $HEDDLE_DRIVERS (default /opt/heddle-drivers); root
# Vendors' drivers stay installed: use a system that is thrown away, as
#   tools/fresh.sh bookworm 'tools/setup.sh && tools/build.sh release heddle_cli && tools/drivers.sh install && tools/drivers.sh'
# What each driver says is kept in build/release/drivers.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

drivers=${HEDDLE_DRIVERS:-/opt/heddle-drivers}
if [ "${1:-}" = install ]; then
  set -e
  mkdir -p "$drivers"
  apt-get install -y --no-install-recommends mesa-opencl-icd python3-venv
  (cd "$drivers" && apt-get download chromium-common && dpkg -x chromium-common_*.deb chromium && rm chromium-common_*.deb)
  python3 -m venv "$drivers/intel" && "$drivers/intel/bin/pip" install --quiet intel-opencl-rt intel-cmplr-lib-rt
  exit
fi

seconds=${1:-60} only=" ${*:2} " heddle=$PWD/build/release/bin/heddle out=$PWD/build/release/drivers
[ -x "$heddle" ] || { echo "drivers: build it first (tools/build.sh release heddle_cli)" >&2; exit 2; }
rm -rf "$out"
mkdir -p "$out/vendors"
export HEDDLE_CACHE_DIR=$out/cache HEDDLE_QUIET=1

# check NAME DEVICE VARIABLE=VALUE...: the doctor's report and the losses, as files.
check() {
  local name=$1 device=$2
  shift 2
  [[ -z ${only// } || $only == *" $name "* ]] || return 0
  echo "== $name" >&2
  env "$@" "$heddle" doctor --device "$device" --seconds "$seconds" --json --report "$out/$name.json" >"$out/$name.doctor" 2>&1
  env "$@" timeout 300 "$heddle" train mnist-mlp --device "$device" --limit-steps 200 --seed 1 --json --out "$out/run-$name" \
    >"$out/$name.losses" 2>"$out/$name.error" || true
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

opencl pocl libpocl.so.2
opencl pocl-basic libpocl.so.2 POCL_DEVICES=basic
intel=$(find "$drivers/intel" -name 'libintelocl.so' 2>/dev/null | head -1)
opencl intel "${intel:-libintelocl.so}" LD_LIBRARY_PATH="$(dirname "${intel:-/}")"
opencl rusticl libRusticlOpenCL.so.1 RUSTICL_ENABLE=llvmpipe
vulkan lavapipe "$(find /usr/share/vulkan/icd.d -name 'lvp_icd*.json' 2>/dev/null | head -1)"
swiftshader=$(find "$drivers/chromium" -name libvk_swiftshader.so 2>/dev/null | head -1)
if [ -n "$swiftshader" ]; then
  echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "'"$swiftshader"'", "api_version": "1.1.0"}}' >"$out/vendors/swiftshader.json"
fi
vulkan swiftshader "$out/vendors/swiftshader.json"

python3 - "$out" <<'TABLE'
import glob, json, os, sys
out = sys.argv[1]

def losses(name):
    found = []
    for line in open(f"{out}/{name}.losses"):
        event = json.loads(line)
        if event.get("event") == "step":
            found.append(event["loss"])
    return found

def first_line(path):
    lines = [l.strip() for l in open(path) if l.startswith("heddle: ")]
    return lines[0].removeprefix("heddle: ") if lines else ""

print("| driver | version | checks passed | findings | 200 losses, largest difference from PoCL's | matmul 1024 |")
print("|---|---|---|---|---|---|")
names = sorted(os.path.basename(p)[:-len(".doctor")] for p in glob.glob(f"{out}/*.doctor"))
expected = losses("pocl") if "pocl" in names else []
for name in names:
    try:
        report = json.load(open(f"{out}/{name}.json"))
    except FileNotFoundError:
        print(f"| {name} | | | {first_line(f'{out}/{name}.doctor')} | | |")
        continue
    passed, left = (sum(p[k] for p in report["parts"]) for k in ("passed", "left"))
    lacking = sum(p["lacking"] for p in report["parts"])
    checks = f"{passed}" + (f", {lacking} lacking" if lacking else "") + (f", {left} not run" if left else "")
    findings = "; ".join(f"{f['status']}: {f['check']}" for f in report["findings"][:3]) or "none"
    if len(report["findings"]) > 3:
        findings += f" and {len(report['findings']) - 3} more"
    found = losses(name)
    if len(found) < 200 or not expected:
        difference = first_line(f"{out}/{name}.error") or ("not compared" if len(found) >= 200 else f"{len(found)} steps in 300 s")
    else:
        difference = f"{max(abs(a - b) / abs(b) for a, b in zip(found, expected)):.1e}"
    figures = {f["case"]: f"{f['value']:.3g} {f['unit']}" for f in report["figures"]}
    device = report["environment"]["device"]
    print(f"| {name} | {device['driver']} | {checks} | {findings} | {difference} | {figures.get('matmul 1024x1024x1024', '')} |")
TABLE
