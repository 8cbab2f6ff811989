#!/usr/bin/env python3
"""Writes torch_corners.json: what PyTorch's gradients are where a function has a corner, a bound, a tie or a NaN. In
double precision; sum() of the result is differentiated.

usage: tests/autograd/torch_corners.py > tests/autograd/torch_corners.json     (PyTorch 2.15.0)
"""
import json
import math

import torch
import torch.nn.functional as F

NAN, INF = math.nan, math.inf
POINTS = [-7.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 7.0, NAN, INF, -INF]
LEFT = [0.0, 0.0, 1.0, 1.0, -1.0, NAN, 1.0, 2.0, 4.0, -4.0, 0.0, 0.0]
RIGHT = [0.0, 1.0, 1.0, 2.0, -1.0, 1.0, NAN, 1.0, 2.0, 2.0, 2.0, -1.0]
ROWS = [[3.0, 3.0, 1.0, 3.0], [0.0, 0.0, 0.0, 0.0], [2.0, 2.0, 2.0, 0.0]]


def zeros(f, **options):
    return lambda x: f(x, torch.zeros_like(x), reduction="none", **options)


UNARY = {
    "clamp": lambda x: torch.clamp(x, -1, 1),
    "clamp_low": lambda x: torch.clamp(x, min=1),
    "clamp_high": lambda x: torch.clamp(x, max=1),
    "clamp_crossed": lambda x: torch.clamp(x, 1, -1),
    "clamp_one_point": lambda x: torch.clamp(x, 2, 2),
    "logit": lambda x: torch.logit(x, 0.25),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "softshrink": lambda x: F.softshrink(x, 0.5),
    "hardshrink": lambda x: F.hardshrink(x, 0.5),
    "threshold": lambda x: F.threshold(x, 0.5, 9.0),
    "pow0": lambda x: x**0,
    "pow1": lambda x: x**1,
    "pow2": lambda x: x**2,
    "pow_half": lambda x: x**0.5,
    "smooth_l1": zeros(F.smooth_l1_loss, beta=1.0),
    "huber": zeros(F.huber_loss, delta=1.0),
    "l1": zeros(F.l1_loss),
    "hinge_embedding": lambda x: F.hinge_embedding_loss(x, -torch.ones_like(x), margin=1.0, reduction="none"),
}
for name in "relu relu6 hardtanh hardsigmoid hardswish elu celu selu softsign".split():
    UNARY[name] = getattr(F, name)
for name in "abs sign sinc sqrt rsqrt log reciprocal frac floor nan_to_num".split():
    UNARY[name] = getattr(torch, name)
BINARY = {name: getattr(torch, name) for name in "maximum minimum fmod remainder atan2 hypot copysign xlogy pow".split()}
REDUCTION = {
    "amax": torch.amax,
    "amin": torch.amin,
    "norm2": torch.linalg.vector_norm,
    "norm1": lambda x: torch.linalg.vector_norm(x, 1),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, INF),
    "stddev": torch.std,
    "prod": torch.prod,
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "cummax": lambda x: torch.cummax(x, 0).values,
}


def gradients(f, *values):
    inputs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
    f(*inputs).sum().backward()
    return [[str(v) if not math.isfinite(v) else v for v in (x.grad if x.grad is not None else torch.zeros_like(x)).tolist()] for x in inputs]


def plain(values):
    return [str(v) if not math.isfinite(v) else v for v in values]


cases = []
for names, inputs in ((UNARY, [[POINTS]]), (BINARY, [[LEFT, RIGHT]]), (REDUCTION, [[row] for row in ROWS])):
    for name, f in names.items():
        for values in inputs:
            cases.append({"name": name, "inputs": [plain(v) for v in values], "gradients": gradients(f, *values)})
print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")
