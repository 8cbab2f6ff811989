"""Writes preference_losses_values.json: losses of DPO and ORPO and their gradients by PyTorch in double precision, from the papers' formulas.

python tests/nn/preference_losses_values.py > tests/nn/preference_losses_values.json
"""
import json

import torch

CHOSEN = [-12.5, -3.25, -40.0, -0.75, -7.5, -1e-3, -100.0]
REJECTED = [-14.0, -2.5, -38.0, -9.5, -7.5, -6.0, -0.5]
REFERENCE_CHOSEN = [-13.0, -3.5, -35.0, -1.5, -7.0, -0.25, -60.0]
REFERENCE_REJECTED = [-13.5, -3.0, -39.0, -4.0, -7.0, -2.0, -50.0]
sigmoid = torch.sigmoid


def leaves(*lists):
    return [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in lists]


def recorded(losses, chosen, rejected, **options):
    losses.mean().backward()
    return {**options, "losses": losses.tolist(), "chosen": chosen.grad.tolist(), "rejected": rejected.grad.tolist()}


def dpo(beta, smoothing):
    w, l, rw, rl = leaves(CHOSEN, REJECTED, REFERENCE_CHOSEN, REFERENCE_REJECTED)
    right = sigmoid(beta * (w - rw) - beta * (l - rl))
    wrong = sigmoid(beta * (l - rl) - beta * (w - rw))
    return recorded(-(1 - smoothing) * torch.log(right) - smoothing * torch.log(wrong), w, l, beta=beta, smoothing=smoothing)


def orpo(weight):
    # Means over so many tokens.
    w, l = leaves([v / 4 for v in CHOSEN], [v / 5 for v in REJECTED])
    odds = [p / (1 - p) for p in (torch.exp(w), torch.exp(l))]
    return recorded(-w - weight * torch.log(sigmoid(torch.log(odds[0] / odds[1]))), w, l, weight=weight)


print(json.dumps({"torch": torch.__version__, "inputs": [CHOSEN, REJECTED, REFERENCE_CHOSEN, REFERENCE_REJECTED],
                  "dpo": [dpo(0.1, 0), dpo(0.5, 0.2), dpo(1.5, 0)], "orpo": [orpo(0.1), orpo(1.0)]}))
