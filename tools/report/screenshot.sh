#!/usr/bin/env bash
# docs/report.png: two runs of mnist-mlp compared, as headless Chromium draws the page.
#   tools/report/screenshot.sh [folder of MNIST]        HEDDLE: the command, build/bin/heddle
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
heddle=${HEDDLE:-build/bin/heddle}
data=${1:-../shared/data/mnist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$heddle" train mnist-mlp --data "$data" --epochs 2 --seed 1 --out "$work/adam"
"$heddle" train mnist-mlp --data "$data" --epochs 2 --seed 1 --optimizer sgd --lr 0.05 --out "$work/sgd"
"$heddle" report "$work/adam" "$work/sgd" -o "$work/report.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1400,2525 --screenshot=docs/report.png "file://$work/report.html"
