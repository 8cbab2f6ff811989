#!/usr/bin/env python3
"""Writes tests/parity/losses.json: losses of ten training steps of small networks, by PyTorch, from weights and batches
that tests/parity/losses_test.cpp has bit for bit.

    python3 tools/parity/make_losses.py        (needs numpy and torch)
"""
import json
import os

import torch
from torch import optim

import models

STEPS = 10
# By name: the network, its batches, and its optimizer.
CASES = {
    "mlp": (models.mlp, lambda step: models.images(step, 16, (48,), 10), lambda p: optim.Adam(p, lr=1e-2)),
    "cnn": (models.LeNet, lambda step: models.images(step, 8, (1, 13, 12), 10), lambda p: optim.SGD(p, lr=0.05, momentum=0.9)),
    "lstm": (models.LstmLm, lambda step: models.text(step, 4, 9, 13), lambda p: optim.Adam(p, lr=3e-2)),
    "gpt": (models.Gpt, lambda step: models.text(step, 4, 11, 13), lambda p: optim.AdamW(p, lr=3e-3, weight_decay=0.1)),
    "resnet18": (models.ResNet18, lambda step: models.images(step, 6, (3, 11, 12), 10), lambda p: optim.SGD(p, lr=0.02, momentum=0.9)),
}


def losses(case, dtype):
    make, batch, make_optimizer = CASES[case]
    model = make()
    models.set_by_formula(dict(model.named_parameters()))
    model.to(dtype)
    optimizer = make_optimizer(model.parameters())
    result = []
    for step in range(STEPS):
        x, y = batch(step)
        loss = torch.nn.functional.cross_entropy(model(x.to(dtype) if x.is_floating_point() else x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def main():
    torch.set_num_threads(1)
    out = {"made_by": "tools/parity/make_losses.py, torch " + torch.__version__}
    for case in CASES:
        out[case] = {"f32": losses(case, torch.float32), "f64": losses(case, torch.float64)}
    path = os.path.join(os.path.dirname(__file__), "../../tests/parity/losses.json")
    with open(path, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
