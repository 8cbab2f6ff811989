#!/usr/bin/env python3
"""Writes tests/nn/optimizer_values.json: parameters after each of six steps of PyTorch's optimizers.

Two parameters, (2, 3) and (4); values and gradients come from Heddle's Philox stream. The second parameter has no gradient in step 1,
and the learning rate is halved from step 3 on.
    python3 tools/parity/make_optimizer_values.py        (needs numpy and torch)
"""
import json
import os

import torch

from philox import philox_uniform

SHAPES, STEPS = [(2, 3), (4,)], 6
CASES = [
    ("sgd", {"lr": 0.1}),
    ("sgd", {"lr": 0.1, "weight_decay": 0.05}),
    ("sgd", {"lr": 0.1, "momentum": 0.9}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("adam", {"lr": 0.01}),
    ("adam", {"lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-3, "weight_decay": 0.1}),
    ("adamw", {"lr": 0.01}),
    ("adamw", {"lr": 0.02, "betas": [0.5, 0.9], "weight_decay": 0.3}),
]
CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def values(parameter, step):
    """In [-1, 1); step -1 gives the first value."""
    shape = SHAPES[parameter]
    count = torch.Size(shape).numel()
    return torch.from_numpy(philox_uniform([3, parameter, step + 1, 0], count) * 2 - 1).reshape(shape)


def run(name, options):
    parameters = [torch.nn.Parameter(values(p, -1)) for p in range(2)]
    optimizer = CLASSES[name](parameters, **options)
    steps = []
    for step in range(STEPS):
        if step == 3:
            optimizer.param_groups[0]["lr"] *= 0.5
        for p, parameter in enumerate(parameters):
            parameter.grad = None if (p == 1 and step == 1) else values(p, step)
        optimizer.step()
        steps.append([p.detach().reshape(-1).tolist() for p in parameters])
    return {"optimizer": name, "options": options, "steps": steps}


def main():
    torch.set_num_threads(1)
    out = {"made_by": "tools/parity/make_optimizer_values.py, torch " + torch.__version__, "cases": [run(*case) for case in CASES]}
    path = os.path.join(os.path.dirname(__file__), "../../tests/nn/optimizer_values.json")
    with open(path, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
