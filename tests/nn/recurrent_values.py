"""Makes recurrent_values.json: what PyTorch's GRU and LSTM answer, in double precision, to the calls of recurrent_test.cpp.

Run with any PyTorch: python3 recurrent_values.py > recurrent_values.json
"""
import json
import math

import torch

T, N, I, H = 4, 2, 3, 5


def wave(shape, frequency):
    n = math.prod(shape)
    return torch.tensor([0.6 * math.sin(frequency * (i + 1)) for i in range(n)], dtype=torch.float64).reshape(shape)


result = {}
for kind, module, gates, states in (("GRU", torch.nn.GRU, 3, 1), ("LSTM", torch.nn.LSTM, 4, 2)):
    layer = module(I, H).double()
    shapes = {"weight_ih": (gates * H, I), "weight_hh": (gates * H, H), "bias_ih": (gates * H,), "bias_hh": (gates * H,)}
    with torch.no_grad():
        for k, (name, shape) in enumerate(shapes.items()):
            getattr(layer, name + "_l0").copy_(wave(shape, 0.7 + 0.3 * k))
    x = wave((T, N, I), 0.9).requires_grad_()
    first = [wave((1, N, H), 1.3 + k).requires_grad_() for k in range(states)]
    ys, last = layer(x, first[0] if states == 1 else tuple(first))
    last = [last] if states == 1 else list(last)
    loss = (ys * ys).sum() + sum((s * wave((1, N, H), 0.5)).sum() for s in last)
    loss.backward()
    flat = lambda t: t.detach().reshape(-1).tolist()
    result[kind] = {"states": flat(ys), "last": [flat(s) for s in last], "loss": loss.item(), "x": flat(x.grad), "first": [flat(f.grad) for f in first],
                    **{name: flat(getattr(layer, name + "_l0").grad) for name in shapes}}
print(json.dumps(result))
