"""Writes through indices that combine what is written."""
import torch

from generate import KINDS, flags, given, near, whole

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def scatter_reduce(x, i, source, axis, how, include_self=True):
    return x.scatter_reduce(axis, i.long(), source[tuple(slice(0, n) for n in i.shape)], how, include_self=include_self)


def index_reduce(x, i, source, axis, how, include_self=True):
    index = i.long() % x.shape[axis]
    shape = [1] * x.dim()
    shape[axis] = len(index)
    return x.scatter_reduce(axis, index.reshape(shape).expand(source.shape), source, how, include_self=include_self)


def put(x, values, *indices, accumulate):
    return x.index_put(tuple(i.long() for i in indices), values, accumulate)


def rows(row):
    x, source = near(-2, 2, 5, 3, distinct=True), near(-2.1, 2.2, 9, 3, distinct=True)
    small = [x, whole((7, 2), 0, 5), source]
    many = [near(-2, 2, 40, 2, distinct=True), whole((60, 2), 0, 40), near(-2.01, 2.02, 60, 2, distinct=True)]
    for how in REDUCTIONS:
        for keep in (True, False):
            args = [{"axis": 0, "how": how, "include_self": keep}]
            row("scatter_reduce", scatter_reduce, [small], args, dtypes=("f32", "f16", "i32"), derive=KINDS if keep else ())
            row("scatter_reduce", scatter_reduce, [many], args, derive=())
        row("scatter_reduce", scatter_reduce,
            [[near(-2, 2, 2, 3, 4, distinct=True), whole((2, 5, 4), 0, 3, "i64"),
            near(-2.1, 2.2, 2, 5, 4, distinct=True)]], [{"axis": 1, "how": how}], derive=())
        row("index_reduce", index_reduce,
            [[near(-2, 2, 4, 6, distinct=True), given([3, 0, 3, -2, 0], "i32"), near(-2.1, 2.2, 4, 5, distinct=True)]],
            [{"axis": 1, "how": how}, {"axis": -1, "how": how, "include_self": False}],
            dtypes=("f32", "i32"), derive=("empty",))
    ties = [given([1.0, 2.0, 0.0]), given([0, 1, 1, 1, 2], "i32"), given([1.0, 2.0, 2.0, 1.0, -3.0])]
    row("scatter_reduce", scatter_reduce, [ties], [{"axis": 0, "how": "amax"}, {"axis": 0, "how": "amin"}], derive=())
    zeros = [given([1.0, 2.0, 3.0, 4.0]), given([0, 0, 1, 1, 1, 2], "i32"), given([0.0, 3.0, 0.0, 0.0, 2.0, 5.0])]
    row("scatter_reduce", scatter_reduce, [zeros], [{"axis": 0, "how": "prod"}], derive=())
    row("index_put", put, [[(6, 4), (9, 4), whole((9,), -6, 6)], [(6, 4), (), whole((9,), 0, 6), whole((3, 1), 0, 4)],
        [(30, 8), (50, 2, 8), whole((50, 2), 0, 30)]], [{"accumulate": True}], dtypes=("f32", "i32"))
    row("index_add", lambda x, i, s, axis, alpha=1.0: x.index_add(axis, i.long() % x.shape[axis], s,
        alpha=int(alpha) if not x.is_floating_point() else alpha),
        [[(4, 6, 2), given([3, 0, 3, -2, 0], "i32"), (4, 5, 2)]],
        [{"axis": 1}, {"axis": -2, "alpha": -3.0}], dtypes=("f32", "f16", "i32", "u8"))
    row("index_copy", lambda x, i, s, axis: x.index_copy(axis, i.long() % x.shape[axis], s),
        [[(4, 6, 2), given([3, -6, 5], "i32"), (4, 3, 2)], [(90, 4, 2), given(list(range(80, 10, -1)), "i64"),
        (70, 4, 2)]], [{"axis": 1}, {"axis": 0}], pairs=True,
        dtypes=("f32", "f16", "i32"))
    row("masked_scatter", torch.masked_scatter, [[(4, 6), flags(4, 6), (30,)], [(4, 6), flags(6), (5, 6)]], dtypes=("f32", "f16", "i32"))
