#!/usr/bin/env bash
# Heddle for Windows x86-64: cross-built by MinGW-w64, packed as build/windows/heddle-windows-x86_64.zip, and with `test`
# run by Wine, whose vulkan-1.dll and opencl.dll reach this machine's drivers. Called by tools/cross.sh.
#   tools/cross.sh windows [test]      HEDDLE_CROSS_PARTS="libraries build pack test" names single parts, HEDDLE_CROSS_JOBS jobs,
#                                      HEDDLE_CROSS_MODEL a GGUF file that is fine-tuned on both systems
# What Debian has no MinGW packages of is built from Debian's own source packages, as static libraries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
work=${HEDDLE_CROSS_WORK:-$root/build/windows}
prefix=$work/libraries build=$work/build
case "${1:-}" in
  "") parts=${HEDDLE_CROSS_PARTS:-"libraries build pack"} ;;
  test) parts=${HEDDLE_CROSS_PARTS:-"libraries build pack test"} ;;
  *) echo "usage: tools/cross.sh windows [test]" >&2; exit 2 ;;
esac
has() { [[ " $parts " == *" $1 "* ]]; }

packages=(g++-mingw-w64-x86-64-posix libz-mingw-w64-dev wine wine64 xvfb xauth zip unzip dpkg-dev libvulkan-dev libvulkan-volk-dev opencl-headers
  nlohmann-json3-dev libcli11-dev libtomlplusplus-dev googletest ninja-build cmake)
install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "cross: installing ${missing[*]}"
  apt-get -q update
  DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 install -y --no-install-recommends "${missing[@]}"
}

# ---- libraries ----

# source NAME: Debian's source of the package in $work/sources/NAME, by this machine's package sources.
source_of() {
  local name=$1 lists=$work/apt
  [ ! -d "$work/sources/$name" ] || return 0
  mkdir -p "$work/sources/.$name" "$lists/lists/partial" "$lists/cache/archives/partial"
  # The same archives, asked for sources.
  sed 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' /etc/apt/sources.list.d/debian.sources >"$lists/debian.sources" 2>/dev/null ||
    sed 's/^deb /deb-src /' /etc/apt/sources.list >"$lists/debian.list"
  local options=(-q -o "Dir::Etc::sourcelist=$lists/$(cd "$lists" && ls debian.* | head -1)" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$lists/lists" -o "Dir::Cache=$lists/cache" -o APT::Sandbox::User=root)
  [ -f "$lists/updated" ] || { apt-get "${options[@]}" update; touch "$lists/updated"; }
  # A mirror may lack what its list of security updates names: then the release's own.
  (cd "$work/sources/.$name" && { apt-get "${options[@]}" source "$name" ||
    apt-get "${options[@]}" source "$name/$(. /etc/os-release && echo "$VERSION_CODENAME")"; })
  mv "$work/sources/.$name"/*/ "$work/sources/$name"
  rm -rf "$work/sources/.$name"
}

# library NAME SOURCE_FOLDER CMAKE_OPTIONS...: built and installed into the prefix, once.
library() {
  local name=$1 source=$2
  shift 2
  [ ! -f "$prefix/.$name" ] || return 0
  echo "cross: $name"
  cmake -G Ninja -S "$source" -B "$work/objects/$name" -DCMAKE_TOOLCHAIN_FILE="$root/cmake/windows.cmake" -DHEDDLE_CROSS_PREFIX="$prefix" \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POLICY_DEFAULT_CMP0074=NEW \
    "${launcher[@]}" "$@" >"$work/$name.log" 2>&1 &&
    cmake --build "$work/objects/$name" -j "$jobs" >>"$work/$name.log" 2>&1 &&
    cmake --install "$work/objects/$name" >>"$work/$name.log" 2>&1 || { tail -20 "$work/$name.log" >&2; exit 1; }
  touch "$prefix/.$name"
}

# Headers alone: this machine's packages serve any system.
link_headers() {
  mkdir -p "$prefix/include" "$prefix/share/cmake"
  local path
  for path in nlohmann CLI toml++ vulkan vk_video CL volk.h volk.c; do
    [ ! -e "/usr/include/$path" ] || ln -sfn "/usr/include/$path" "$prefix/include/$path"
  done
  # Those of a CUDA toolkit where there is one: its libraries are opened at run time.
  for path in cuda.h nvrtc.h nvtx3; do
    [ ! -e "/usr/local/cuda/include/$path" ] || ln -sfn "/usr/local/cuda/include/$path" "$prefix/include/$path"
  done
  for path in nlohmann_json CLI11; do
    rm -rf "$prefix/share/cmake/$path"
    cp -r "/usr/share/cmake/$path" "$prefix/share/cmake/$path"
  done
}

make_libraries() {
  mkdir -p "$work/sources" "$work/objects" "$prefix"
  link_headers
  library googletest /usr/src/googletest -DBUILD_GMOCK=OFF
  source_of fmtlib
  library fmt "$work/sources/fmtlib" -DFMT_TEST=OFF -DFMT_DOC=OFF
  source_of utf8proc
  library utf8proc "$work/sources/utf8proc" -DUTF8PROC_ENABLE_TESTING=OFF
  source_of libpng1.6
  library png "$work/sources/libpng1.6" -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_EXECUTABLES=OFF
  source_of libjpeg-turbo
  library jpeg "$work/sources/libjpeg-turbo" -DENABLE_SHARED=OFF -DWITH_SIMD=OFF -DWITH_JAVA=OFF
  source_of glslang
  library glslang "$work/sources/glslang" -DENABLE_CTEST=OFF -DENABLE_HLSL=OFF \
    -DENABLE_OPT=OFF  # the optimizer, and with it SPIRV-Tools: Heddle does not use it
}

# ---- the build ----

jobs=${HEDDLE_CROSS_JOBS:-$(nproc)}
launcher=()
export CCACHE_SLOPPINESS=pch_defines,time_macros  # as in tools/build.sh
command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
install_packages
! has libraries || make_libraries

heddle=$work/heddle-windows-x86_64
make_heddle() {
  cmake -G Ninja -S . -B "$build" -DCMAKE_TOOLCHAIN_FILE="$root/cmake/windows.cmake" -DHEDDLE_CROSS_PREFIX="$prefix" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DHEDDLE_PCH=ON "${launcher[@]}"
  cmake --build "$build" -j "$jobs" --target heddle_cli heddle_probe "$@"
}
# What of the tests is built for Windows (tests/CMakeLists.txt).
tests=(heddle_tests_system heddle_tests_unit heddle_tests_null heddle_tests_data heddle_tests_conformance)

# One program that needs no DLL but the system's and the drivers', and the program that tries drivers out.
pack() {
  rm -rf "$heddle" "$heddle.zip"
  mkdir -p "$heddle/bin" "$heddle/lib/heddle"
  cp "$build/bin/heddle.exe" "$heddle/bin/"
  cp "$build/lib/heddle/heddle-probe.exe" "$heddle/lib/heddle/"
  x86_64-w64-mingw32-strip "$heddle/bin/heddle.exe" "$heddle/lib/heddle/heddle-probe.exe"
  cp LICENSE "$heddle/"
  sed 's/$/\r/' >"$heddle/README.txt" <<'TEXT'
Heddle for Windows 10 and later, x86-64.

  bin\heddle.exe devices                 lists devices; vulkan-1.dll and OpenCL.dll come with their drivers
  bin\heddle.exe train mnist-mlp --device vulkan:0

Nothing has to be installed. Compiled kernels are kept in %LOCALAPPDATA%\heddle (HEDDLE_CACHE_DIR names another folder).
Left out: plug-in back ends, which need a shared library; the CUDA back end where no toolkit's headers were there to build it.
TEXT
  (cd "$work" && zip -qr "$(basename "$heddle").zip" "$(basename "$heddle")")
  echo "cross: $heddle.zip"
}

# ---- the tests ----

# In a folder of its own, as elsewhere; Wine's own messages are dropped.
export WINEDEBUG=${WINEDEBUG:--all} WINEPREFIX=$work/wine
on_windows() { HEDDLE_CACHE_DIR="$work/cache" wine "$@"; }

here=build/release/bin/heddle
run_tests() {
  if [ -z "${DISPLAY:-}" ]; then
    # Wine's Vulkan needs a window system.
    exec xvfb-run -a env HEDDLE_CROSS_PARTS=test bash "$root/tools/cross/windows.sh" test
  fi
  local failed=0 group device
  [ -d "$WINEPREFIX" ] || wine winecfg -v win10
  for group in "${tests[@]}"; do
    (cd "$build" && on_windows "bin/$group.exe" --gtest_brief=1) || { echo "cross: $group failed" >&2; failed=1; }
  done
  rm -rf "$work/elsewhere" "$work/runs"
  mkdir -p "$work/elsewhere" "$work/runs"
  (cd "$work/elsewhere" && unzip -q "$heddle.zip")
  local program=$work/elsewhere/heddle-windows-x86_64/bin/heddle.exe
  on_windows "$program" devices
  [ -x $here ] || echo "cross: no $here, whose losses would be compared (tools/build.sh release heddle_cli)"
  for device in vulkan:0 opencl:0; do
    train_on "$program" "$device" mnist-mlp --epochs 1 || failed=1
    train_on "$program" "$device" char-gpt --limit-steps 20 || failed=1
    train_on "$program" "$device" mnist-cnn --limit-steps 10 || failed=1
  done
  [ ! -f "${HEDDLE_CROSS_MODEL:-}" ] || finetune_on "$program" vulkan:0 "$HEDDLE_CROSS_MODEL" || failed=1
  go_on_after_ends "$program" || failed=1
  return $failed
}

# finetune_on PROGRAM DEVICE MODEL.gguf: the same of 20 steps of LoRA on this project's pages.
finetune_on() {
  local program=$1 device=$2 model=$3 out=$work/runs/finetune
  cat docs/*.md >"$work/pages.txt"
  local options=(finetune "$model" --data "$work/pages.txt" --device "$device" --steps 20 --length 128 --batch 2 --seed 1 --limit-test 1
    --eval-every 20 --log-every 1 --json)
  on_windows "$program" "${options[@]}" --out "$out" >"$out.txt" || { echo "cross: fine-tuning on $device failed" >&2; return 1; }
  [ -x $here ] || return 0
  HEDDLE_CACHE_DIR="$work/cache-here" $here "${options[@]}" --out "$out-here" >"$out-here.txt" ||
    { echo "cross: fine-tuning on $device failed here" >&2; return 1; }
  same_losses "$out/metrics.jsonl" "$out-here/metrics.jsonl" 1e-3 "finetune on $device, on Windows and here"
}

# same_losses THERE HERE LIMIT TEXT: the largest relative difference of the losses of two runs, step by step.
same_losses() {
  python3 - "$@" <<'PYTHON'
import json, sys
def losses(path):
    return {row["step"]: row["loss"] for row in map(json.loads, open(path)) if "loss" in row and "step" in row}
there, here = losses(sys.argv[1]), losses(sys.argv[2])
worst = max((abs(there[i] - here[i]) / max(abs(here[i]), 1e-12) for i in there.keys() & here.keys()), default=1)
print(f"cross: {sys.argv[4]}: {len(there)} and {len(here)} losses; largest relative difference {worst:.3g}")
sys.exit(there.keys() != here.keys() or worst > float(sys.argv[3]))
PYTHON
}

# train_on PROGRAM DEVICE RECIPE OPTIONS...: its losses beside those of this machine's own program where it was built.
train_on() {
  local program=$1 device=$2 recipe=$3 out=$work/runs/$3-${2%:*}
  local options=("${@:4}" --seed 1 --log-every 1 --json)
  on_windows "$program" train "$recipe" --device "$device" "${options[@]}" --out "$out" >"$out.txt" ||
    { echo "cross: training $recipe on $device failed" >&2; return 1; }
  [ -x $here ] || return 0
  HEDDLE_CACHE_DIR="$work/cache-here" $here train "$recipe" --device "$device" "${options[@]}" --out "$out-here" >"$out-here.txt" ||
    { echo "cross: training $recipe on $device failed here" >&2; return 1; }
  same_losses "$out/metrics.jsonl" "$out-here/metrics.jsonl" 1e-5 "$recipe on $device, on Windows and here"
}

# Runs that were killed, or ended by a console's Ctrl-C or Ctrl-Break, and gone on with have the losses of one that was
# not, bit by bit. The folder of the first has a name that is not ASCII.
go_on_after_ends() {
  local program=$1 whole=$work/runs/whole failed=0
  local options=(train mnist-mlp --epochs 4 --seed 1 --device opencl:0 --log-every 1 --json)
  on_windows "$program" "${options[@]}" --out "$whole" >"$whole.txt" || { echo "cross: training failed" >&2; return 1; }
  kill_and_resume "$program" "$work/runs/Übung" || failed=1
  interrupt_and_resume "$program" C 130 || failed=1
  interrupt_and_resume "$program" BREAK 143 || failed=1
  interrupt_and_resume "$program" CLOSE 143 || failed=1
  return $failed
}

resume() {
  local program=$1 out=$2 text=$3
  on_windows "$program" resume "$out" --json >"$out-2.txt" || { echo "cross: resume failed" >&2; return 1; }
  same_losses "$out/metrics.jsonl" "$work/runs/whole/metrics.jsonl" 0 "$text and gone on with, and whole"
}

kill_and_resume() {
  local program=$1 out=$2 run
  # No function: the process that is killed is Wine itself.
  HEDDLE_CACHE_DIR="$work/cache" wine "$program" "${options[@]}" --checkpoint-every 200 --out "$out" >"$out.txt" &
  run=$!
  until [ "$(wc -l <"$out.txt" 2>/dev/null || echo 0)" -gt 1000 ] || ! kill -0 $run 2>/dev/null; do sleep 0.05; done
  kill -KILL $run || { echo "cross: the run ended before it was killed" >&2; return 1; }
  wait $run || true
  resume "$program" "$out" killed
}

interrupt_and_resume() {
  local program=$1 event=$2 code=$3 out=$work/runs/$2 status=0
  on_windows "$build/bin/heddle_console_event.exe" "$event" 1000 "$program" "${options[@]}" --out "$out" >"$out.txt" ||
    status=$?
  [ $status = "$code" ] || { echo "cross: $event ended the run with $status instead of $code" >&2; return 1; }
  resume "$program" "$out" "ended by $event"
}

! has build || make_heddle $(! has test || echo "${tests[@]}" heddle_console_event)
! has pack || pack
! has test || run_tests
