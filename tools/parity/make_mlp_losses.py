#!/usr/bin/env python3
"""Writes tests/parity/mlp_losses.json: losses of ten Adam steps of the 784-128-64-10 MLP, by PyTorch.

Weights and batches come from Heddle's Philox stream, so tests/parity/mlp.cpp starts from the same bits.
    python3 tools/parity/make_mlp_losses.py        (needs numpy and torch)
"""
import json
import math
import os

import numpy as np
import torch

from philox import Generator, philox_uniform

SIZES, BATCH, STEPS, LR, WEIGHT_SEED, DATA_SEED = [784, 128, 64, 10], 32, 10, 1e-3, 1, 2


def linear(generator, fan_in, fan_out):
    bound = math.sqrt(3.0) * math.sqrt(2.0 / ((1 + math.sqrt(5.0) * math.sqrt(5.0)) * fan_in))
    layer = torch.nn.Linear(fan_in, fan_out)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(generator.uniform((fan_out, fan_in), -bound, bound)))
        bound = 1 / math.sqrt(fan_in)
        layer.bias.copy_(torch.from_numpy(generator.uniform((fan_out,), -bound, bound)))
    return layer


def batch(step):
    """Noise in [0, 0.5), and 0.5 more on 70 pixels that belong to the label."""
    labels = (philox_uniform([DATA_SEED, 0, step, 1], BATCH) * np.float32(10)).astype(np.int64)
    x = (philox_uniform([DATA_SEED, 0, step, 0], BATCH * 784) * np.float32(0.5)).reshape(BATCH, 784)
    for row, label in enumerate(labels):
        x[row, 70 * label:70 * label + 70] += np.float32(0.5)
    return torch.from_numpy(x), torch.from_numpy(labels)


def losses(dtype):
    generator = Generator(WEIGHT_SEED)
    layers = [linear(generator, a, b) for a, b in zip(SIZES, SIZES[1:])]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2]).to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    result = []
    for step in range(STEPS):
        x, y = batch(step)
        loss = torch.nn.functional.cross_entropy(model(x.to(dtype)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def main():
    torch.set_num_threads(1)
    out = {"made_by": "tools/parity/make_mlp_losses.py, torch " + torch.__version__, "f32": losses(torch.float32), "f64": losses(torch.float64)}
    path = os.path.join(os.path.dirname(__file__), "../../tests/parity/mlp_losses.json")
    with open(path, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
