#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds, and trains the MNIST-type MLP on the best
# device found. Further arguments go to `heddle train mnist-mlp`, e.g.  tools/quickstart.sh --device vulkan:0 --epochs 2
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
tools/build.sh release heddle_cli
build/release/bin/heddle devices
exec build/release/bin/heddle train mnist-mlp "$@"
