#!/usr/bin/env bash
# Runs a command in a bare Debian made on the spot, on a fresh clone of the committed HEAD: it shows what a green run on
# a used machine hides, such as a package that nobody installs, a path of one machine, a file that was never added.
#   tools/fresh.sh SUITE COMMAND      e.g.  tools/fresh.sh trixie 'tools/test.sh'
# Needs root and debootstrap (apt-get install debootstrap), and uses this machine's package sources; for Ubuntu's noble
# archive.ubuntu.com, checked by $UBUNTU_KEYRING (Debian 13's package ubuntu-keyring has it). The bare system is
# kept as ${TMPDIR:-/tmp}/bare-debian-SUITE.tar for the next run; the copy that the command ran in is removed unless
# KEEP=1. SYS=0 hides /sys from it.
set -euo pipefail

if [ $# -ne 2 ]; then
  echo "usage: tools/fresh.sh SUITE COMMAND, e.g. tools/fresh.sh trixie 'tools/test.sh'" >&2
  exit 2
fi
suite=$1 command=$2
[ "$(id -u)" -eq 0 ] || { echo "fresh: needs root (chroot, mount)" >&2; exit 2; }
repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
own=$(. /etc/os-release && echo "$VERSION_CODENAME")
ubuntu_keyring=${UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
work=${TMPDIR:-/tmp} base=${TMPDIR:-/tmp}/bare-debian-$suite.tar root=${TMPDIR:-/tmp}/fresh.$$

# The bare system as a tarball: this machine's package sources, with the other release's name in them.
make_base() {
  command -v debootstrap >/dev/null || { echo "fresh: needs debootstrap (apt-get install debootstrap)" >&2; exit 2; }
  local sources= candidate boot=$work/bare-debian.$$ mirror script
  for candidate in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ -n "$sources" ] || ! [ -f "$candidate" ] || sources=$candidate
  done
  mirror=$(awk '/^URIs:/{print $2; exit} /^deb /{print $2; exit}' "$sources")
  script=/usr/share/debootstrap/scripts/$suite
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid  # a release younger than this machine's debootstrap
  local options=(--variant=minbase --include=ca-certificates,git)
  if [ "$suite" = noble ]; then
    [ -f "$ubuntu_keyring" ] || { echo "fresh: $ubuntu_keyring is missing: UBUNTU_KEYRING=FILE names another" >&2; exit 2; }
    mirror=http://archive.ubuntu.com/ubuntu script=/usr/share/debootstrap/scripts/gutsy  # of all of Ubuntu's
    options+=(--keyring="$ubuntu_keyring" --components=main,universe)
  fi
  if ! debootstrap "${options[@]}" "$suite" "$boot" "$mirror" "$script" >"$work/debootstrap.$$.log" 2>&1; then
    tail -5 "$work/debootstrap.$$.log" >&2
    exit 1
  fi
  rm -f "$boot/etc/apt/sources.list"
  mkdir -p "$boot/etc/apt/sources.list.d"
  if [ "$suite" = noble ]; then
    printf 'deb %s %s main universe\n' "$mirror" noble "$mirror" noble-updates >"$boot/etc/apt/sources.list.d/ubuntu.list"
  else
    sed "s/\b$own\b/$suite/g; s/\b$own-/$suite-/g" "$sources" >"$boot/etc/apt/sources.list.d/$(basename "$sources")"
  fi
  for candidate in /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/*artifact*; do
    [ ! -f "$candidate" ] || cp "$candidate" "$boot/etc/apt/apt.conf.d/"
  done
  cp -L /etc/ssl/certs/ca-certificates.crt "$boot/etc/ssl/certs/" 2>/dev/null || true
  tar -C "$boot" -cf "$base.$$" . && mv "$base.$$" "$base"
  rm -rf --one-file-system "$boot" "$work/debootstrap.$$.log"
}

cleanup() {
  umount -l "$root/proc" "$root/dev" "$root/sys" 2>/dev/null || true
  if [ -n "${KEEP:-}" ]; then echo "fresh: kept $root"; else rm -rf --one-file-system "$root"; fi
}

[ -f "$base" ] || make_base
trap cleanup EXIT
mkdir -p "$root"
tar -C "$root" -xpf "$base"
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
[ "${SYS:-1}" = 0 ] || mount --bind /sys "$root/sys"
cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
git clone -q "$repository" "$root/home/heddle"

# What package managers need of this machine's environment, and nothing else.
passed=()
for name in SSL_CERT_FILE CURL_CA_BUNDLE GIT_SSL_CAINFO http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy NO_PROXY CI; do
  [ -z "${!name:-}" ] || passed+=("$name=${!name}")
done
env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  "${passed[@]}" chroot "$root" bash -c "cd /home/heddle && $command"
