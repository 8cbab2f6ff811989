#!/usr/bin/env python3
"""Writes tests/nn/optimizer_values.json: parameters after each of six steps of PyTorch's optimizers, and of Lion and LAMB by their papers' formulas.
Muon's products are computed in f32 as Heddle's are, not in bf16.

Two parameters, (2, 3) and (4), of Muon (3, 2); values and gradients come from Heddle's Philox stream. The second parameter has no gradient in step 1,
and the learning rate is halved from step 3 on.
    python3 tools/parity/make_optimizer_values.py        (needs numpy and torch)
"""
import json
import os

import torch
from torch.optim import _muon

from philox import philox_uniform

SHAPES, STEPS = [(2, 3), (4,)], 6
MATRICES = [(2, 3), (3, 2)]
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
    ("lion", {"lr": 0.01}),
    ("lion", {"lr": 0.02, "betas": [0.8, 0.9], "weight_decay": 0.3}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, 0.5),
    ("adamw", {"lr": 0.02, "weight_decay": 0.3}, 0.7),
    ("lion", {"lr": 0.02, "weight_decay": 0.1}, 0.7),
    ("rmsprop", {"lr": 0.01}),
    ("rmsprop", {"lr": 0.01, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1, "momentum": 0.8, "centered": True}),
    ("adagrad", {"lr": 0.1}),
    ("adagrad", {"lr": 0.1, "lr_decay": 0.3, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3}),
    ("adafactor", {"lr": 0.3}),
    ("adafactor", {"lr": 0.8, "beta2_decay": -0.5, "eps": [1e-3, 0.5], "d": 2.0, "weight_decay": 0.1}),
    ("lamb", {"lr": 0.1}),
    ("lamb", {"lr": 0.05, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.2}, 0.7),
    ("muon", {"lr": 0.1}),
    ("muon", {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.3, "nesterov": False, "ns_steps": 3, "adjust_lr_fn": "match_rms_adamw"}),
]


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                direction = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p.mul_(1 - lr * group["weight_decay"]).sub_(lr * direction)
                m.mul_(beta2).add_((1 - beta2) * p.grad)


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=1e-2):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                m, v = state.setdefault("m", torch.zeros_like(p)), state.setdefault("v", torch.zeros_like(p))
                t = state["t"] = state.get("t", 0) + 1
                m.mul_(beta1).add_((1 - beta1) * p.grad)
                v.mul_(beta2).add_((1 - beta2) * p.grad**2)
                direction = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + group["eps"]) + group["weight_decay"] * p
                p.sub_(group["lr"] * p.norm() / direction.norm() * direction)


def newton_schulz(grad, coefficients, steps, eps):
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


_muon._zeropower_via_newtonschulz = newton_schulz
CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lion": Lion, "rmsprop": torch.optim.RMSprop,
           "adagrad": torch.optim.Adagrad, "adafactor": torch.optim.Adafactor, "lamb": Lamb, "muon": torch.optim.Muon}


def values(name, parameter, step):
    """In [-1, 1); step -1 gives the first value."""
    shape = (MATRICES if name == "muon" else SHAPES)[parameter]
    count = torch.Size(shape).numel()
    return torch.from_numpy(philox_uniform([3, parameter, step + 1, 0], count) * 2 - 1).reshape(shape)


def run(name, options, clip=None):
    parameters = [torch.nn.Parameter(values(name, p, -1)) for p in range(2)]
    optimizer = CLASSES[name](parameters, **options)
    steps = []
    for step in range(STEPS):
        if step == 3:
            optimizer.param_groups[0]["lr"] *= 0.5
        for p, parameter in enumerate(parameters):
            parameter.grad = None if (p == 1 and step == 1) else values(name, p, step)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
        steps.append([p.detach().reshape(-1).tolist() for p in parameters])
    return {"optimizer": name, "options": options, "clip": clip, "steps": steps}


def main():
    torch.set_num_threads(1)
    out = {"made_by": "tools/parity/make_optimizer_values.py, torch " + torch.__version__, "cases": [run(*case) for case in CASES]}
    path = os.path.join(os.path.dirname(__file__), "../../tests/nn/optimizer_values.json")
    with open(path, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
