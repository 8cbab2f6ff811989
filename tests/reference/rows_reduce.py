"""Reductions, running sums and order."""
import torch

from generate import near

AXES = [{}, {"axes": [0]}, {"axes": [-1], "keepdim": True}, {"axes": [0, 2]}, {"axes": [1]}]
SHAPES = [[(3, 5, 7)], [(2, 17, 4)]]
EMPTY = [[(3, 0, 2)]]


def dims(x, axes):
    return tuple(axes) if axes else tuple(range(x.dim()))


def over(f):
    return lambda x, axes=(), keepdim=False, **more: f(x, dims(x, axes), keepdim, **more)


def extreme(f):
    """amax and amin divide a gradient between ties; inputs here have none."""
    return over(f)


def product(x, axes, keepdim):
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(axis, keepdim=True)
    return x if keepdim else x.squeeze(tuple(a % x.dim() for a in axes))


def rows(row):
    row("sum", over(torch.sum), SHAPES + [[(1,)], [()]], [{}], dtypes=("f32", "f16", "bf16", "i32", "u8", "bool"))
    row("sum", over(torch.sum), SHAPES, AXES[1:])
    row("sum", over(torch.sum), EMPTY, [{}, {"axes": [1]}], grad=False)
    row("mean", over(torch.mean), SHAPES, AXES, dtypes=("f32", "f16", "bf16"))
    row("prod", over(product), [[near(0.5, 1.5, 3, 5, 7)], [near(-1.5, 1.5, 2, 9, 4)]], AXES, dtypes=("f32", "f16", "bf16", "i32"))
    row("max", extreme(torch.amax), [[near(-2, 2, 3, 5, 7, distinct=True)]], AXES, dtypes=("f32", "f16", "i32"))
    row("min", extreme(torch.amin), [[near(-2, 2, 3, 5, 7, distinct=True)]], AXES, dtypes=("f32", "f16", "i32"))
    row("logsumexp", over(torch.logsumexp), SHAPES + [[near(80, 120, 2, 6, 4)]], AXES, dtypes=("f32", "f16", "bf16"))
    for correction in (0, 1):
        row("var", over(lambda x, axes, keepdim, correction: torch.var(x, axes, keepdim=keepdim, correction=correction)), SHAPES,
            [{**a, "correction": correction} for a in AXES], dtypes=("f32", "f16", "bf16"))
    pick = [{}, {"axis": 0}, {"axis": -1, "keepdim": True}, {"axis": 1}]
    for name in ("argmax", "argmin"):
        row(name, lambda x, axis=None, keepdim=False, f=getattr(torch, name): f(x, axis, keepdim),
            [[near(-2, 2, 3, 5, 7, distinct=True)]], pick, dtypes=("f32", "f16", "i32"))
    running = [{"axis": 0}, {"axis": 1}, {"axis": -1}]
    row("cumsum", lambda x, axis: torch.cumsum(x, axis), [[(3, 5, 7)], [(2, 40)]], running[:2] + running[2:], dtypes=("f32", "f16", "bf16", "i32"))
    row("cumprod", lambda x, axis: torch.cumprod(x, axis), [[near(0.5, 1.5, 3, 5, 7)], [near(-1.5, 1.5, 2, 12)]], running, dtypes=("f32", "f16"))
    order = [near(-2, 2, 3, 11, distinct=True)]
    row("argsort", lambda x, axis=-1, descending=False: torch.argsort(x, dim=axis, descending=descending, stable=True),
        [order], [{}, {"axis": 0}, {"descending": True}], dtypes=("f32", "f16", "i32"))
    row("sort", lambda x, axis=-1, descending=False: list(torch.sort(x, dim=axis, descending=descending, stable=True)),
        [order], [{}, {"axis": 0}, {"descending": True}],
        dtypes=("f32", "f16", "i32"))
    row("topk", lambda x, k, axis=-1, largest=True: list(torch.topk(x, k, axis, largest, sorted=True)), [order],
        [{"k": 3}, {"k": 2, "axis": 0}, {"k": 11, "largest": False}], dtypes=("f32", "f16"))
