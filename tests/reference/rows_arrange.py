"""Arrangement, positions of sequences, bags, unpooling."""
import math

import torch

from generate import Input, given, near, whole

F = torch.nn.functional
MOST = ("f32", "f16", "i32")
NAN = float("nan")


def rotary(x, *positions, base=10000.0, interleaved=False, dims=0):
    d = dims or x.shape[-1]
    if d > x.shape[-1] or d % 2:
        raise ValueError(f"{d} of {tuple(x.shape)}")
    at = positions[0].double() if positions else torch.arange(x.shape[-2]).double()
    angle = at[..., None] * base ** (-torch.arange(0, d, 2).double() / d)
    c, s = angle.cos(), angle.sin()
    part = x[..., :d]
    a, b = (part[..., 0::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    left, right = a * c - b * s, a * s + b * c
    turned = torch.stack((left, right), -1).flatten(-2) if interleaved else torch.cat((left, right), -1)
    return torch.cat((turned, x[..., d:]), -1)


def runs(x):
    values, inverse, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    return [values, inverse, counts]


def bag(indices, offsets, weight, *weights, mode="mean"):
    return F.embedding_bag(indices.long(), weight, offsets.long(), mode=mode, per_sample_weights=weights[0] if weights else None)


def vander(x, columns=None, increasing=False):  # torch.vander has no gradient
    powers = torch.stack([x ** k for k in range(columns or len(x))], 1)
    return powers if increasing else powers.flip(1)


def most_frequent(x, axis=-1, keepdim=False):
    """torch.mode, with the first of the indices: PyTorch gives any."""
    found = x == torch.mode(x, axis, keepdim=True).values
    index = (found.int() * torch.arange(x.shape[axis], 0, -1).reshape([-1 if d == axis % x.dim() else 1 for d in range(x.dim())])).argmax(axis, keepdim=True)
    values = x.gather(axis, index)
    return [values, index] if keepdim else [values.squeeze(axis), index.squeeze(axis)]


def unpool(rank):
    return lambda x, i, kernel, stride=None, padding=0, size=None: getattr(F, f"max_unpool{rank}d")(x, i.long(), kernel, stride, padding, size)


def places(shape, size):
    """Different places for the elements of each plane."""
    count = math.prod(shape[2:])
    rows = [[(7 * k + 3 * row + 1) % size for k in range(count)] for row in range(shape[0] * shape[1])]
    return Input(shape, values=rows, dtype="i32", grad=False)


def rows(row):
    x = [(3, 4, 5)]
    row("select", lambda x, axis, index: x.select(axis, index), [x], [{"axis": 1, "index": 2}, {"axis": -1, "index": -5}], dtypes=MOST)
    row("narrow", lambda x, axis, start, length: x.narrow(axis, start, length), [x],
        [{"axis": 2, "start": 1, "length": 3}, {"axis": 0, "start": -2, "length": 2}], dtypes=MOST)
    row("tensor_split", lambda x, parts, axis=0: list(x.tensor_split(parts, axis)), [[(7, 5)]],
        [{"parts": 3}, {"parts": 4, "axis": 1}, {"parts": [2, 4], "axis": -1}, {"parts": [-2, 9]}], dtypes=MOST)
    row("column_stack", lambda *p: torch.column_stack(p), [[(3,), (3, 2), (3,)], [(), ()]], dtypes=MOST)
    # (PyTorch takes gradients behind an empty part from elsewhere)
    row("block_diag", lambda *p: torch.block_diag(*p), [[(2, 3), (1, 2), (2,), ()], [(2, 2)]], dtypes=MOST, derive=())
    row("cartesian_prod", lambda *p: torch.cartesian_prod(*p), [[(3,), (2,)], [(2,), (3,), (2,)], [(4,)]], dtypes=MOST)
    row("vander", vander, [[(4,)]], [{}, {"columns": 3}, {"columns": 5, "increasing": True}], dtypes=("f32", "f16"))
    row("vander", torch.vander, [[given([2, -1, 3], "i32")]])
    row("cumulative_trapezoid", lambda y, dx=1.0, axis=-1: torch.cumulative_trapezoid(y, dx=dx, dim=axis), [[(3, 6)]],
        [{}, {"dx": 0.5, "axis": 0}], dtypes=("f32", "f16"))
    row("dist", lambda a, b, p=2.0: torch.dist(a, b, p), [[(3, 4), (4,)]], [{}, {"p": 1.0}, {"p": 3.0}], dtypes=("f32", "f16"))
    row("msort", torch.msort, [[near(-2, 2, 5, 3, distinct=True)]], dtypes=MOST)
    row("nanmedian", lambda x, axis=-1, keepdim=False: list(x.nanmedian(axis, keepdim)),
        [[near(-2, 2, 4, 6, distinct=True)], [near(-2, 2, 4, 5, distinct=True)]], [{}, {"axis": 0, "keepdim": True}],
        dtypes=MOST)
    row("nanmedian", lambda x: list(x.nanmedian(-1)), [[given([[1.0, NAN, 3.0, 2.0], [NAN, NAN, 5.0, NAN]])]], grad=False)
    ties = given([[2.0, 1.0, 2.0, 3.0, 1.0], [5.0, 4.0, 3.0, 2.0, 1.0], [0.5, 0.5, 0.5, 7.0, 7.0]])
    row("mode", most_frequent, [[near(-2, 2, 4, 6, distinct=True)]], [{}, {"axis": 0, "keepdim": True}], dtypes=MOST)
    row("mode", most_frequent, [[ties], [given([3, 3, 9, 9, 9, 1], "i32")]], [{}, {"axis": 0, "keepdim": True}], dtypes=("f32", "f16"), grad=False)
    row("combinations", lambda x, count=2, with_replacement=False: torch.combinations(x, count, with_replacement),
        [[(5,)]], [{}, {"count": 3}, {"count": 2, "with_replacement": True}, {"count": 6}], dtypes=MOST)
    row("unique_consecutive", runs, [[given([[3.0, 3.0, 1.0], [1.0, 2.0, 2.0]])], [given([4, 4, 4, 7], "i32")], [given([5.0])]], grad=False)
    row("rotary_embedding", rotary, [[(2, 5, 8)]], [{}, {"interleaved": True}, {"dims": 4, "base": 100.0},
        {"dims": 6, "interleaved": True}], dtypes=("f32", "f16", "bf16"))
    row("rotary_embedding", rotary, [[(2, 3, 4, 6), given([7, 0, 300, 2], "i32")], [(2, 3, 4, 6), whole((2, 1, 4), 0, 99)]], [{}])
    indices, offsets = whole((9,), 0, 5), given([0, 3, 3, 7], "i32")
    for mode in ("sum", "mean", "max"):
        row("embedding_bag", bag, [[indices, offsets, near(-2, 2, 5, 3, distinct=True)]], [{"mode": mode}], dtypes=("f32", "f16"))
    row("embedding_bag", bag, [[indices, offsets, (5, 3), (9,)]], [{"mode": "sum"}], dtypes=("f32", "f16"))
    row("max_unpool1d", unpool(1), [[(2, 3, 4), places((2, 3, 4), 8)]], [{"kernel": 2}, {"kernel": 2, "size": [9]}], dtypes=("f32", "f16"), derive=("empty",))
    row("max_unpool2d", unpool(2), [[(2, 3, 3, 2), places((2, 3, 3, 2), 23)]], [{"kernel": 2}, {"kernel": 2, "size": [7, 4]}], derive=("empty",))
    row("max_unpool3d", unpool(3), [[(1, 2, 2, 2, 1), places((1, 2, 2, 2, 1), 31)]], [{"kernel": 2}], derive=("empty",))
    row("lp_pool3d", lambda x, p, kernel, stride=None: F.lp_pool3d(x, p, kernel, stride),
        [[near(0.1, 2, 1, 2, 4, 3, 4)]], [{"p": 2.0, "kernel": 2}, {"p": 3.0, "kernel": 2, "stride": 1}])
    row("rrelu", lambda x: F.rrelu(x), [[(4, 6)]], dtypes=("f32", "f16"))
