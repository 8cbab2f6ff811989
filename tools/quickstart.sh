#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds, and trains the MNIST-type MLP on the best
# device found. Further arguments go to `heddle train mnist-mlp`, e.g.  tools/quickstart.sh --device vulkan:0 --epochs 2
# What is built is all of training and its datasets, in few large units (the preset quickstart); tests, benchmarks, the
# tuner and ONNX come with tools/build.sh, and a program that is there from it is brought up to date instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=quickstart
[ ! -x build/release/bin/heddle ] || preset=release
tools/setup.sh --train
tools/build.sh "$preset" heddle_cli
"build/$preset/bin/heddle" devices
exec "build/$preset/bin/heddle" train mnist-mlp "$@"
