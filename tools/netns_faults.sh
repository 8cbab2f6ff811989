#!/usr/bin/env bash
# Two ranks in two network namespaces, over a link that loses packets, delays them, and is down for a while in the
# middle of the run: it has to end with the bits of a run over a link without faults. Root, python3 and Open MPI are
# needed; without them the script says so and ends with 0.
#   tools/netns_faults.sh [RECIPE [BATCH [STEPS [LOSS [DELAY_MS [OUTAGE_S]]]]]]        mnist-mlp 64 30 0.01 20 10
#   BUILD: the build folder, build/release; DEVICE: opencl:0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

recipe=${1:-mnist-mlp} batch=${2:-64} steps=${3:-30} loss=${4:-0.01} delay=${5:-20} outage=${6:-10}
relay=$PWD/tools/lossy_link.py
source tools/ranks.bash
source tools/two_hosts.bash
open_hosts f python3
[ -c /dev/net/tun ] || skip "there is no /dev/net/tun"

link="" down=""
cleanup() {
  for pid in $link $down; do kill "$pid" 2> /dev/null || true; done
  remove_hosts
}
trap cleanup EXIT

# connect LOSS DELAY_MS: both ends of a new link, with addresses.
connect() {
  [ -z "$link" ] || { kill "$link"; wait "$link" 2> /dev/null || true; }
  python3 "$relay" "hf0$id" "hf1$id" "$1" "$2" > "$folder/relay" 2>&1 &
  link=$!
  for _ in $(seq 100); do grep -q ready "$folder/relay" && break; sleep 0.05; done
  grep -q ready "$folder/relay" || skip "no TUN devices can be made ($(tail -n 1 "$folder/relay"))"
  for end in 0 1; do
    ip link set "hf$end$id" netns "${names[end]}"
    ip netns exec "${names[end]}" ip addr add "10.204.0.$((end + 1))/24" dev "hf$end$id"
    ip netns exec "${names[end]}" ip link set "hf$end$id" up
  done
}

# train NAME: prints the last line of the run.
train() { train_on_both 10.204.0 "$folder/$1" "$recipe" --batch "$batch" --steps "$steps" --seed 3; }
field() { grep -o "\"$1\":\"\\?[0-9a-f.]*" | cut -d : -f 2 | tr -d '"'; }
repeated() { ip netns exec "${names[0]}" awk '/^Tcp:/ { n = $13 } END { print n }' /proc/net/snmp; }

connect 0 0
train whole > "$folder/whole.line"
connect "$loss" "$delay"
before=$(repeated)
updates() { grep -sc '"event":"step"' "$folder/faults/metrics.jsonl" || true; }
(
  until [ "0$(updates)" -ge $((steps / 3)) ]; do sleep 0.1; done
  ip netns exec "${names[0]}" ip link set "hf0$id" down
  sleep "$outage"
  ip netns exec "${names[0]}" ip link set "hf0$id" up
  echo over > "$folder/outage"
) &
down=$!
train faults > "$folder/faults.line"
[ -f "$folder/outage" ] || { echo "netns_faults: the run ended before the link was down for $outage s"; exit 1; }
echo "$recipe, $steps updates: $(field seconds < "$folder/whole.line") s without faults," \
  "$(field seconds < "$folder/faults.line") s with $loss lost, $delay ms delay and $outage s without a link;" \
  "segments sent again: $(($(repeated) - before))"
for line in whole faults; do
  echo "$line: loss $(field loss < "$folder/$line.line"), parameters $(field parameters_sha256 < "$folder/$line.line")"
done
[ "$(field parameters_sha256 < "$folder/whole.line")" = "$(field parameters_sha256 < "$folder/faults.line")" ] ||
  { echo "netns_faults: parameters differ"; exit 1; }
