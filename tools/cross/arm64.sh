#!/usr/bin/env bash
# Heddle for 64-bit ARM Linux, made and tested on another machine: cross-built against an arm64 Debian in a folder, run
# there by qemu-user with that Debian's PoCL and lavapipe.
#   tools/cross.sh arm64                         builds, and packs build/heddle-arm64.tar.gz for other arm64 Linuxes
#   tools/cross.sh arm64 test                    then unit, null, and losses of mnist-mlp:50 and mnist-cnn:5
#   tools/cross.sh arm64 losses RECIPE:STEPS...  of the packed program there beside this machine's, on both drivers
#   tools/cross.sh arm64 conformance FILTER      conformance tests there (qemu is about ten times slower)
#   tools/cross.sh arm64 run COMMAND...          a command in that system, in this repository's folder
# Needs root (chroot, binfmt_misc). Installs the cross compiler and qemu; makes the system in $HEDDLE_ARM64 (default
# /opt/heddle-arm64), 1 GB, which takes ten minutes, once. The losses of this machine come from build/release.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tools/cross/arm64.sh >&2
  exit 2
}
case ${1:-build} in
  build | test) [ $# -le 1 ] || usage ;;
  conformance) [ $# -eq 2 ] || usage ;;
  losses | run) [ $# -ge 2 ] || usage ;;
  *) usage ;;
esac
[ "$(id -u)" -eq 0 ] || { echo "cross: needs root (chroot, binfmt_misc)" >&2; exit 2; }

home=${HEDDLE_ARM64:-/opt/heddle-arm64} build=build/arm64 repository=$PWD
root=$home/root
export HEDDLE_CACHE_DIR=${HEDDLE_CACHE_DIR:-$PWD/$build/cache}  # of kernels, there
suite=bookworm  # of the cross compiler's release: the C++ libraries of both agree

# What Heddle is built with (tools/setup.sh has the same, with what only a native build needs), drivers, and what tests
# start. No OpenBLAS, oneDNN, CLBlast (peers of benchmarks), Node.js and clang-format.
packages=(
  libstdc++-12-dev libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev libgtest-dev
  libpng-dev libturbojpeg0-dev libutf8proc-dev
  libvulkan-dev libvulkan-volk-dev glslang-dev spirv-tools vulkan-validationlayers mesa-vulkan-drivers
  opencl-headers ocl-icd-libopencl1 pocl-opencl-icd
  binutils
)

tools() {
  local missing=() package
  for package in g++-aarch64-linux-gnu qemu-user-static debootstrap; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get -q -o Acquire::Retries=3 update
  DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "${missing[@]}"
}

# The kernel starts arm64 programs by qemu. F: qemu is opened now, and need not be found in a chroot.
emulate() {
  local folder=/proc/sys/fs/binfmt_misc
  [ -e $folder/register ] || mount -t binfmt_misc binfmt_misc $folder
  # What begins like a 64-bit little-endian ELF program of AArch64, and which of those bits count.
  local magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
  local mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  [ -e $folder/qemu-aarch64 ] ||
    printf '%s' ":qemu-aarch64:M::$magic:$mask:/usr/bin/qemu-aarch64-static:F" >$folder/register
}

# `made` says with which packages the system was made: with others it is made anew.
make_root() (
  mkdir -p "$home"
  exec 9>"$home/lock"
  flock 9  # of two runs, one makes it
  [ "$(cat "$home/made" 2>/dev/null)" != "$suite ${packages[*]}" ] || exit 0
  mirror=$(awk '/^URIs:/{print $2; exit} /^deb /{print $2; exit}' /etc/apt/sources.list.d/debian.sources \
    /etc/apt/sources.list 2>/dev/null || true)
  rm -rf --one-file-system "$home/made" "$root"
  mkdir -p "$root"
  echo "cross: making an arm64 Debian in $root (log: $home/debootstrap.log)"
  # In mounts of its own, which end with it however it ends.
  if ! unshare --mount debootstrap --arch=arm64 --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" "$suite" "$root" \
      "${mirror:-http://deb.debian.org/debian}" >"$home/debootstrap.log" 2>&1; then
    tail -5 "$home/debootstrap.log" >&2
    rm -rf --one-file-system "$root"
    exit 1
  fi
  rm -f "$root"/var/cache/apt/archives/*.deb
  # The compiler follows links from outside, where / is another system.
  find "$root/usr/lib" "$root/usr/include" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$root$(readlink "$link")" "$link"
  done
  echo "$suite ${packages[*]}" >"$home/made"
)

# A command in the arm64 system, in the repository's folder; mounts end with it.
inside() {
  unshare --mount bash -ec '
    root=$1 repository=$2
    shift 2
    for folder in /proc /dev /sys "$repository"; do mkdir -p "$root$folder"; mount --rbind "$folder" "$root$folder"; done
    exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HEDDLE_CACHE_DIR="$HEDDLE_CACHE_DIR" \
      POCL_CACHE_DIR="$HEDDLE_CACHE_DIR/pocl" bash -c "cd \"\$0\" && exec \"\$@\"" "$repository" "$@"
  ' inside "$root" "$repository" "$@"
}

compile() {
  local launcher=()
  ! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_SLOPPINESS=pch_defines,time_macros
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEDDLE_PCH=ON -DHEDDLE_CUDA=OFF \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/arm64-linux.cmake" -DHEDDLE_ARM64_ROOT="$root" -DCMAKE_INSTALL_RPATH='$ORIGIN' \
    "${launcher[@]}"
  cmake --build $build -j "${JOBS:-$(nproc)}" --target "$@"
}

# What another system may lack goes into the tarball. The C and C++ libraries and zlib stay that system's, since its
# drivers load them too, and may need newer ones than Debian's.
pack() {
  local folder=$PWD/$build/heddle-arm64 name path
  rm -rf "$folder" build/heddle-arm64.tar.gz
  QEMU_LD_PREFIX=$root cmake --install $build --prefix "$folder" --strip >/dev/null
  libraries "$folder/bin/heddle" | while read -r name path; do
    case $name in libfmt.* | libpng* | libturbojpeg.* | libutf8proc.*) cp -L "$root$path" "$folder/lib/$name" ;; esac
  done
  libraries "$folder/bin/heddle" | while read -r name path; do
    case $path:$name in
      "$folder"/* | *:*/ld-linux-aarch64.so.1 | *:libc.so* | *:libm.so* | *:libstdc++.so* | *:libgcc_s.so* | *:libz.so*) ;;
      *) echo "cross: $name is neither in the tarball nor part of every Linux" >&2; exit 1 ;;
    esac
  done
  tar -C $build -czf build/heddle-arm64.tar.gz heddle-arm64
  echo "cross: packed build/heddle-arm64.tar.gz, $(du -h build/heddle-arm64.tar.gz | cut -f1), for" \
    "$(newest_of GLIBC "$folder") and $(newest_of GLIBCXX "$folder") or newer"
}
# "name path" of each shared library that a program of the arm64 system is loaded with.
libraries() {
  qemu-aarch64-static -L "$root" "$root/lib/ld-linux-aarch64.so.1" --list "$1" | awk '$2 == "=>" {print $1, $3}'
}
# newest_of GLIBC FOLDER: the newest version of those symbols that a program or library in the folder asks for.
newest_of() {
  find "$2" -type f \( -name '*.so*' -o -perm -u+x \) -exec aarch64-linux-gnu-objdump -T {} + 2>/dev/null |
    grep -o "\b$1_[0-9.]*" | sort -uV | tail -1
}

# losses RECIPE:STEPS DEVICE: of build/release here and of the tarball there; their largest relative difference may be
# 1e-3.
losses() {
  local recipe=${1%:*} steps=${1#*:} device=$2 out=$build/losses/${2%:*}-${1%:*} there=/tmp/heddle-arm64
  local -a train=(train "$recipe" --device "$device" --limit-steps "$steps" --seed 1 --log-every 1 --json)
  rm -rf "$out"
  mkdir -p "$out"
  HEDDLE_CACHE_DIR=$build/losses/cache build/release/bin/heddle "${train[@]}" --out "$out/run-here" >"$out/here" ||
    return 1
  inside sh -c "rm -rf $there && mkdir $there && tar -C $there -xzf build/heddle-arm64.tar.gz" || return 1
  inside $there/heddle-arm64/bin/heddle "${train[@]}" --out "$out/run-there" >"$out/there" || return 1
  python3 - "$recipe, $device" "$steps" "$out/here" "$out/there" <<'COMPARE'
import json, sys
name, steps, *files = sys.argv[1:]
events = [[json.loads(line) for line in open(file)] for file in files]
here, there = ([e["loss"] for e in one if e.get("event") == "step"] for one in events)
if len(here) != int(steps) or len(there) != int(steps):
    sys.exit(f"cross: {name}: {len(here)} and {len(there)} losses instead of {steps}")
worst = max(abs(a - b) / abs(a) for a, b in zip(here, there))
print(f"cross: {name}: largest relative difference of {steps} losses {worst:.1e}")
sys.exit(worst > 1e-3)
COMPARE
}
all_losses() {
  local failed=0 run device
  for run in "$@"; do
    for device in opencl:0 vulkan:0; do
      losses "$run" $device || { echo "cross: $run on $device failed" >&2; failed=1; }
    done
  done
  return $failed
}
needs() { [ -e "$1" ] || { echo "cross: no $1 ($2)" >&2; exit 2; }; }

case ${1:-} in
  test | losses) needs build/release/bin/heddle "to compare with: tools/build.sh release heddle_cli" ;;
esac
tools
emulate
make_root
case ${1:-build} in
  build)
    compile heddle_cli heddle_probe heddle_runtime
    pack
    ;;
  test)
    compile heddle_cli heddle_probe heddle_runtime heddle_tests_unit heddle_tests_null
    pack
    failed=0
    for group in unit null; do
      inside $build/bin/heddle_tests_$group --gtest_brief=1 || { echo "cross: $group failed" >&2; failed=1; }
    done
    all_losses mnist-mlp:50 mnist-cnn:5 || failed=1
    exit $failed
    ;;
  losses)
    needs build/heddle-arm64.tar.gz "tools/cross.sh arm64 makes it"
    all_losses "${@:2}"
    ;;
  run) inside "${@:2}" ;;
  conformance)
    compile heddle_tests_conformance
    inside $build/bin/heddle_tests_conformance --gtest_brief=1 --gtest_filter="$2"
    ;;
esac
