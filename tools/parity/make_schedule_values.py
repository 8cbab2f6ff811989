#!/usr/bin/env python3
"""Writes tests/nn/schedule_values.json: the learning rates of PyTorch's schedulers, update by update.

    python3 tools/parity/make_schedule_values.py        (needs torch)
"""
import json
import os

import torch
from torch.optim import lr_scheduler as s

UPDATES = 40
CASES = {
    "step": (0.5, lambda o: s.StepLR(o, 7, 0.3)),
    "multi_step": (0.5, lambda o: s.MultiStepLR(o, [3, 10, 10, 25], 0.5)),
    "exponential": (0.5, lambda o: s.ExponentialLR(o, 0.9)),
    "linear": (0.5, lambda o: s.LinearLR(o, 0.25, 0.75, 12)),
    "polynomial": (0.5, lambda o: s.PolynomialLR(o, 15, 2.0)),
    "cosine": (0.5, lambda o: s.CosineAnnealingLR(o, UPDATES, 0.1)),
    "cosine_restarts": (0.5, lambda o: s.CosineAnnealingWarmRestarts(o, 6, 1, 0.05)),
    "cosine_restarts_growing": (0.5, lambda o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.0)),
    "one_cycle": (0.5, lambda o: s.OneCycleLR(o, 0.5, total_steps=UPDATES)),
    "one_cycle_linear": (0.5, lambda o: s.OneCycleLR(o, 0.5, total_steps=UPDATES, pct_start=0.5,
    anneal_strategy="linear", div_factor=10, final_div_factor=100)),
    "cyclical": (0.1, lambda o: s.CyclicLR(o, 0.1, 0.7, 5, 8, cycle_momentum=False)),
    "cyclical_shrinking": (0.1, lambda o: s.CyclicLR(o, 0.1, 0.7, 4, cycle_momentum=False, mode="triangular2")),
    "warmup_exponential": (0.5, lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.2, 1.0, 8), s.ExponentialLR(o, 0.9)], [8])),
}
METRICS = [1.0, 0.8, 0.81, 0.82, 0.7999999, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.4, 0.4, 0.4, 0.4, float("nan"), 0.4, 0.4, 0.3]


def optimizer(lr):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def run(lr, make):
    o = optimizer(lr)
    scheduler, rates = make(o), []
    for _ in range(UPDATES):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        scheduler.step()
    return rates


def plateau(mode, of):
    o = optimizer(0.5)
    scheduler, rates = s.ReduceLROnPlateau(o, mode, factor=0.5, patience=2, threshold=1e-3, cooldown=2, min_lr=0.1), []
    for metric in METRICS:
        scheduler.step(of(metric))
        rates.append(o.param_groups[0]["lr"])
    return rates


def main():
    out = {"made_by": "tools/parity/make_schedule_values.py, torch " + torch.__version__,
           "rates": {name: run(*case) for name, case in CASES.items()},
           "metrics": [None if m != m else m for m in METRICS],
           "plateau_min": plateau("min", lambda m: m), "plateau_max": plateau("max", lambda m: 2 - m)}
    path = os.path.join(os.path.dirname(__file__), "../../tests/nn/schedule_values.json")
    with open(path, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
