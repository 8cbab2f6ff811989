#!/usr/bin/env bash
# Trains ranks in two network namespaces, half of them in each, over a link of a rate, and prints the last line of the
# run (bench/forecast_compare.py). Root is needed; without it, or without a tool, the script says so and ends with 0.
#   tools/train_over.sh RATE RANKS OUT RECIPE [OPTION...]        200mbit 2 /tmp/run mnist-mlp; BUILD: the build folder
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rate=$1 ranks=$2 out=$3
shift 3
source tools/ranks.bash
source tools/two_hosts.bash
open_hosts d tc
link_hosts "$rate"
per_host=$((ranks / 2)) train_on_both 10.203.0 "$out" "$@"
