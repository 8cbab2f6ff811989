"""Writes loss_scale_values.json: what torch.amp.GradScaler does with a weight and its scale over updates of which some overflow.

python tests/nn/loss_scale_values.py > tests/nn/loss_scale_values.json
"""
import json

import torch

# 1: all gradients are finite, 0: one is infinite, -1: one is NaN.
UPDATES = [1, 1, 1, 0, 1, 1, -1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1]

weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
optimizer = torch.optim.SGD([weight], lr=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=3)
scales, weights = [], []
for good in UPDATES:
    factor = torch.tensor([0.25, 1.0 if good == 1 else float("inf") if good == 0 else float("nan")])
    optimizer.zero_grad()
    scaler.scale((weight * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
    weights.append(weight.tolist())
print(json.dumps({"torch": torch.__version__, "start": 64, "interval": 3, "updates": UPDATES, "scales": scales, "weights": weights}))
