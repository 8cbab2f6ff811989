"""Writes distillation_values.json: divergences from a teacher and their gradients by PyTorch in double precision, from the papers' formulas.

python tests/nn/distillation_values.py > tests/nn/distillation_values.json
"""
import json
import math

import torch
from torch.nn.functional import kl_div, log_softmax

ROWS, CLASSES, WIDTH, TEACHER_WIDTH = 5, 37, 12, 7


def wave(shape, frequency, size):
    count = math.prod(shape)
    return torch.tensor([size * math.sin(frequency * (i + 1)) for i in range(count)], dtype=torch.float64).reshape(shape)


def divergence(student, teacher, how, mixture):
    q, p = log_softmax(student, -1), log_softmax(teacher, -1)
    kl = lambda a, b: kl_div(b, a, reduction="none", log_target=True).sum(-1)  # KL(A || B)
    if how == "forward":
        return kl(p, q)
    if how == "reverse":
        return kl(q, p)
    m = torch.log(mixture * p.exp() + (1 - mixture) * q.exp())
    return mixture * kl(p, m) + (1 - mixture) * kl(q, m)


def case(how, temperature, mixture=0.5, classes=CLASSES):
    x, w = wave((ROWS, WIDTH), 0.7, 2), wave((CLASSES, WIDTH), 1.3, 1.5)
    tx, tw = wave((ROWS, TEACHER_WIDTH), 0.4, 1.5), wave((CLASSES, TEACHER_WIDTH), 1.1, 2)
    x.requires_grad_(), w.requires_grad_()
    student, teacher = (x @ w.T)[:, :classes], (tx @ tw.T)[:, :classes]
    losses = temperature**2 * divergence(student / temperature, teacher / temperature, how, mixture)
    (losses * wave((ROWS,), 0.9, 2)).sum().backward()
    return {"divergence": how, "temperature": temperature, "mixture": mixture, "classes": classes,
            "losses": losses.tolist(), "x": x.grad.flatten().tolist(), "weight": w.grad.flatten().tolist()}


print(json.dumps({"torch": torch.__version__, "cases": [
    case("forward", 1), case("forward", 2.5), case("forward", 2, classes=30), case("reverse", 1), case("reverse", 3, classes=30),
    case("jensen-shannon", 1), case("jensen-shannon", 2, 0.2)]}))
