"""Makes recurrent_values.json: what PyTorch's recurrent layers answer, in double precision, to the calls of recurrent_test.cpp.

Run with any PyTorch: python3 recurrent_values.py > recurrent_values.json
"""
import json
import math

import torch

T, N, I, H = 4, 3, 2, 3
CASES = [
    {"kind": "RNN"},
    {"kind": "RNN", "nonlinearity": "relu", "num_layers": 2, "bidirectional": True, "lengths": [2, 4, 1]},
    {"kind": "GRU"},
    {"kind": "GRU", "num_layers": 2, "bidirectional": True, "lengths": [4, 1, 3]},
    {"kind": "GRU", "batch_first": True, "bias": False},
    {"kind": "LSTM"},
    {"kind": "LSTM", "num_layers": 2, "bidirectional": True, "lengths": [3, 4, 2]},
    {"kind": "LSTM", "num_layers": 2, "proj_size": 2, "bidirectional": True},
]


def wave(shape, frequency):
    n = math.prod(shape)
    return torch.tensor([0.6 * math.sin(frequency * (i + 1)) for i in range(n)], dtype=torch.float64).reshape(shape)


def flat(t):
    return [float(f"{v:.7g}") for v in t.detach().reshape(-1).tolist()]


def answer(case):
    options = {k: v for k, v in case.items() if k not in ("kind", "lengths")}
    layer = getattr(torch.nn, case["kind"])(I, H, **options).double()
    with torch.no_grad():
        for k, (_, p) in enumerate(layer.named_parameters()):
            p.copy_(wave(p.shape, 0.7 + 0.3 * k))
    batch_first, lengths = case.get("batch_first", False), case.get("lengths")
    x = wave((N, T, I) if batch_first else (T, N, I), 0.9).requires_grad_()
    count = case.get("num_layers", 1) * (2 if case.get("bidirectional") else 1)
    states = 2 if case["kind"] == "LSTM" else 1
    first = [wave((count, N, case.get("proj_size", H) if k == 0 else H), 1.3 + k).requires_grad_() for k in range(states)]
    given = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first, enforce_sorted=False) if lengths else x
    ys, last = layer(given, tuple(first) if states == 2 else first[0])
    if lengths:
        ys, _ = torch.nn.utils.rnn.pad_packed_sequence(ys, batch_first, total_length=T)
    last = list(last) if states == 2 else [last]
    loss = (ys * ys).sum() + sum((s * wave(s.shape, 0.5)).sum() for s in last)
    loss.backward()
    return {**case, "states": flat(ys), "last": [flat(s) for s in last], "loss": loss.item(),
        "x_gradient": flat(x.grad), "first_gradients": [flat(f.grad) for f in first],
            "gradients": {name: flat(p.grad) for name, p in layer.named_parameters()}}


print(json.dumps([answer(case) for case in CASES]))
