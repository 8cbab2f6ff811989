"""Makes conv_values.json: what PyTorch answers for convolutions and their gradients. Run with a CPU PyTorch: python conv_values.py > conv_values.json"""
import json

import torch
import torch.nn.functional as F


def values(n, seed, shape):
    # Small whole quarters: exact in f32, the same everywhere.
    return (torch.arange(n) * seed % 17 - 8).reshape(shape).to(torch.float64) / 4


CASES = [
    ("conv1d", (2, 4, 9), (6, 2, 3), dict(stride=[2], padding=[1], dilation=[1], groups=2)),
    ("conv2d", (2, 3, 6, 7), (4, 3, 3, 2), dict(stride=[2, 1], padding=[1, 0], dilation=[1, 2], groups=1)),
    ("conv2d", (1, 4, 5, 5), (4, 1, 3, 3), dict(stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=4)),
    ("conv3d", (1, 2, 4, 3, 5), (3, 2, 2, 3, 2), dict(stride=[1, 2, 1], padding=[1, 1, 0], dilation=[2, 1, 1], groups=1)),
    ("conv_transpose1d", (2, 4, 5), (4, 3, 4), dict(stride=[3], padding=[1], dilation=[2], groups=2, output_padding=[2])),
    ("conv_transpose2d", (1, 3, 4, 3), (3, 2, 3, 3), dict(stride=[2, 2], padding=[1, 0], dilation=[1, 1], groups=1, output_padding=[1, 0])),
    ("conv_transpose3d", (1, 2, 2, 3, 2), (2, 2, 2, 1, 3), dict(stride=[1, 2, 2], padding=[0, 0, 1], dilation=[1, 1, 1], groups=1, output_padding=[0, 1, 0])),
]

out = []
for op, xs, ws, options in CASES:
    x = values(torch.Size(xs).numel(), 5, xs).requires_grad_()
    w = values(torch.Size(ws).numel(), 7, ws).requires_grad_()
    channels = ws[1] * options["groups"] if "transpose" in op else ws[0]
    b = values(channels, 3, (channels,)).requires_grad_()
    y = getattr(F, op)(x, w, b, **options)
    g = values(y.numel(), 11, y.shape)
    y.backward(g)
    arrays = dict(y=y, dx=x.grad, dw=w.grad, db=b.grad)
    out.append(dict(op=op, x=xs, w=ws, options=options, **{k: dict(shape=list(v.shape), data=v.detach().reshape(-1).tolist()) for k, v in arrays.items()}))
print(json.dumps(out, separators=(",", ":")))
