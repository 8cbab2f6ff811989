"""Padding with what is there (constants: rows_movement.py)."""
import torch

F = torch.nn.functional


def padded(x, amounts, mode):
    flat = [v for pair in reversed(amounts) for v in pair]
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    return F.pad(x, flat, mode=mode)


def rows(row):
    modes = [{"amounts": [[0, 0], [0, 0], [2, 1]]}, {"amounts": [[0, 0], [0, 0], [0, 3]]}]
    for mode in ("reflect", "replicate", "circular"):
        row("pad", padded, [[(2, 3, 4)]], [{**m, "mode": mode} for m in modes], dtypes=("f32", "f16"))
        row("pad", padded, [[(1, 2, 4, 5)]], [{"amounts": [[0, 0], [0, 0], [1, 2], [3, 0]], "mode": mode}], derive=())
        row("pad", padded, [[(1, 2, 3, 4, 4)]], [{"amounts": [[0, 0], [0, 0], [1, 1], [0, 2], [2, 1]], "mode": mode}], derive=())
