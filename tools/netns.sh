#!/usr/bin/env bash
# Two ranks in two network namespaces with a slow link between them: which share of the communication passes while the
# device computes, and how many bytes the link carries, headers included. Root is needed; without it, or without a tool,
# the script says so and ends with 0.
#   tools/netns.sh [RECIPE [BATCH [STEPS [RATE]]]]        char-gpt 32 20 200mbit; BUILD: the build folder, build/release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

recipe=${1:-char-gpt} batch=${2:-32} steps=${3:-20} rate=${4:-200mbit}
source tools/ranks.bash
source tools/two_hosts.bash
open_hosts d tc
link_hosts "$rate"

sent() { ip netns exec "${names[$1]}" cat "/sys/class/net/hd$1/statistics/tx_bytes"; }
# train STEPS: the last line of a run; the bytes that rank 0 and rank 1 sent stand in bytes0 and bytes1.
train() {
  local before0 before1
  rm -rf "$folder/run"
  before0=$(sent 0) before1=$(sent 1)
  train_on_both 10.203.0 "$folder/run" "$recipe" --batch "$batch" --steps "$1"
  bytes0=$(($(sent 0) - before0)) bytes1=$(($(sent 1) - before1))
}
field() { grep -o "\"$1\":[0-9.e+-]*" | cut -d: -f2; }

train 2 > /dev/null  # kernels are compiled
train 2 > /dev/null
few0=$bytes0 few1=$bytes1
train "$steps" > "$folder/last"
each0=$(((bytes0 - few0) / (steps - 2))) each1=$(((bytes1 - few1) / (steps - 2)))
parameters=$(grep -o "\"parameters\":[0-9]*" "$folder/out" | head -1 | cut -d: -f2)
# Of two ranks each sends half of its gradients twice: as many bytes as there are.
gradients=$((4 * parameters)) most=$((each0 > each1 ? each0 : each1))
echo "$recipe, batch $batch, $rate: $(field median_step_ms < "$folder/last") ms a step," \
  "hidden $(field communication_hidden < "$folder/last")," \
  "$most bytes a step on the link, headers included: $((most * 1000 / gradients)) per 1000 of $gradients of gradients"
