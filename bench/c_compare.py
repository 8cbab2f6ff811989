#!/usr/bin/env python3
"""Models that `heddle compile --targets c` writes beside those of emx-onnx-cgen: one C compiler, one thread, in turns.

  bench/get_peers.sh c
  $HEDDLE_PEERS/venv/bin/python bench/c_compare.py [--heddle build/release/bin/heddle] [--cc gcc] [--rounds 7]

A perceptron (784-256-128-10), a convolutional network (28x28) and a keyword net (49x10, depthwise separable), in f32 and
with weights and activations of 8 bits (QDQ), made here. Both sides are compiled by CC -std=c99 -O3 -march=native; ours
with -Wall -Wextra -Werror -pedantic. Prints for each the differences from the golden vectors (made by Heddle's opencl:0),
the medians of both in rounds of one after the other, and the ratio theirs / ours with its range; the bytes of code that
are no kernel's. Exit code: 0; 1 where values differ; 2 with one line when something is missing.
"""
import argparse
import glob
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

FLAGS = ["-std=c99", "-O3", "-march=native"]
HARNESS = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
void model();
_Bool model_load(const char *);
static float x[%d], y[4096];
int main(int count, char** arguments) {
  long runs = 1, i;
  (void)count;
  model_load(arguments[1]);
  for (i = 0; i < %d; ++i) x[i] = (float)(i %% 17) / 17.0f;
  for (;; runs *= 2) {
    clock_t begin = clock();
    double spent;
    for (i = 0; i < runs; ++i) model(x, y);
    spent = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (spent > 0.05) { printf("%%.9f\\n", spent / (double)runs); return 0; }
  }
}
"""


def fail(text):
    print(f"c_compare: {text}", file=sys.stderr)
    sys.exit(2)


try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
except ImportError as error:
    fail(f"{error.name} is not here (bench/get_peers.sh c, and its venv's python): skipped")


class Net:
    """Nodes and weights of a network that is written down in order."""

    def __init__(self, name, shape):
        self.name, self.shape, self.at, self.nodes, self.weights = name, shape, "x", [], {}
        self.random = np.random.default_rng(1)

    def draw(self, *shape):
        scale = math.sqrt(2 / max(1, int(np.prod(shape[1:]))))
        name = f"w{len(self.weights)}"
        self.weights[name] = (self.random.standard_normal(shape) * scale).astype(np.float32)
        return name

    def add(self, op, inputs=(), **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.at, *inputs], [out], **attributes))
        self.at = out
        return self

    def linear(self, size_in, size_out):
        return self.add("Gemm", [self.draw(size_out, size_in), self.draw(size_out)], transB=1)

    def conv(self, channels, out, kernel, stride=1, group=1):
        self.add("Conv", [self.draw(out, channels // group, *kernel)], kernel_shape=kernel, strides=[stride] * 2,
                 auto_pad="SAME_UPPER", group=group)
        scale, offset, mean, variance = (self.draw(out) for _ in range(4))
        self.weights[variance] = np.abs(self.weights[variance]) + np.float32(0.5)
        return self.add("BatchNormalization", [scale, offset, mean, variance]).add("Relu")

    def save(self, path, classes):
        self.add("Softmax", axis=-1)
        self.nodes[-1].output[0] = "y"
        value = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, self.name, [value("x", TensorProto.FLOAT, self.shape)],
                                  [value("y", TensorProto.FLOAT, [1, classes])],
                                  [numpy_helper.from_array(v, k) for k, v in self.weights.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.save(model, path)


def networks(folder):
    mlp = Net("mlp", [1, 784]).linear(784, 256).add("Relu").linear(256, 128).add("Relu").linear(128, 10)
    cnn = Net("cnn", [1, 1, 28, 28]).conv(1, 16, [3, 3]).conv(16, 32, [3, 3], 2).conv(32, 64, [3, 3], 2)
    cnn.add("GlobalAveragePool").add("Flatten").linear(64, 10)
    kws = Net("kws", [1, 1, 49, 10]).conv(1, 64, [10, 4], 2)
    for _ in range(4):
        kws.conv(64, 64, [3, 3], group=64).conv(64, 64, [1, 1])
    kws.add("GlobalAveragePool").add("Flatten").linear(64, 12)
    for net, classes in ((mlp, 10), (cnn, 10), (kws, 12)):
        path = f"{folder}/{net.name}.onnx"
        net.save(path, classes)
        yield net.name, path, net.shape
        quantised = f"{folder}/{net.name}_int8.onnx"
        quantize_static(path, quantised, Samples(net.shape), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8)
        yield f"{net.name}_int8", quantised, net.shape


class Samples(CalibrationDataReader):
    def __init__(self, shape):
        self.left = iter([{"x": np.random.default_rng(i).random(shape).astype(np.float32)} for i in range(16)])

    def get_next(self):
        return next(self.left, None)


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0 and "main" not in os.path.basename(command[0]):
        fail(f"{' '.join(command)}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done


def build_ours(o, name, path, folder):
    run([o.heddle, "compile", path, "--targets", "c", "--golden", "opencl:0", "-o", f"{folder}/{name}-c"])
    sources = sorted(glob.glob(f"{folder}/{name}-c/*.c"))
    run([o.cc, *FLAGS, "-Wall", "-Wextra", "-Werror", "-pedantic", *sources, "-lm", "-o", f"{folder}/{name}-main"])
    calls = [s for s in sources if re.fullmatch(rf"{name}\.c", os.path.basename(s))]
    run([o.cc, *FLAGS, "-c", *calls, "-o", f"{folder}/{name}.o"])
    size = run(["size", f"{folder}/{name}.o"]).stdout.splitlines()[1].split()[0]
    return f"{folder}/{name}-main", int(size)


def build_theirs(o, name, path, shape, folder):
    target = f"{folder}/{name}-emx"
    os.makedirs(target)
    run([os.path.join(os.path.dirname(sys.executable), "emx-onnx-cgen"), "compile", path, f"{target}/m.c"])
    count = int(np.prod(shape))
    with open(f"{target}/main.c", "w") as file:
        file.write(HARNESS % (count, count))
    run([o.cc, *FLAGS, "-w", "-Dmain=unused_main", "-c", f"{target}/m.c", "-o", f"{target}/m.o"])
    run([o.cc, *FLAGS, "-w", f"{target}/m.o", f"{target}/main.c", "-lm", "-o", f"{target}/main"])
    return [f"{target}/main", next(iter(glob.glob(f"{target}/*.bin")), "")]


def ours_seconds(program):
    done = run([program, "3"])
    differs = "WRONG" in done.stdout or done.returncode != 0
    return float(re.search(r"median ([0-9.]+) s", done.stdout)[1]), differs, done.stdout.splitlines()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--rounds", type=int, default=7)
    o = parser.parse_args()
    if not os.path.exists(o.heddle):
        fail(f"no {o.heddle} (tools/build.sh release heddle_cli)")
    failed, ratios = False, []
    with tempfile.TemporaryDirectory() as folder:
        for name, path, shape in networks(folder):
            program, size = build_ours(o, name, path, folder)
            peer = build_theirs(o, name, path, shape, folder)
            pairs = []
            for _ in range(o.rounds):
                seconds, wrong, line = ours_seconds(program)
                failed |= wrong
                pairs.append((float(run(peer).stdout), seconds))
            each = [theirs / ours for theirs, ours in pairs]
            ratios.append(statistics.median(each))
            print(f"{name}: ours {statistics.median(b for _, b in pairs) * 1e6:.1f} us, theirs "
                  f"{statistics.median(a for a, _ in pairs) * 1e6:.1f} us, ratio {ratios[-1]:.2f} "
                  f"({min(each):.2f} to {max(each):.2f}); {line}; {size} bytes of calls", flush=True)
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}, least {min(ratios):.2f}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
