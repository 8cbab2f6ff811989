"""Pooling."""
import torch

from generate import given, near

INF = float("inf")

F = torch.nn.functional
REAL = ("f32", "f16")


def distinct(*shape):
    return near(-2, 2, *shape, distinct=True)


def maximum(f, indices):
    def run(x, kernel, stride=None, padding=0, dilation=1, ceil=False):
        return f(x, kernel, stride, padding, dilation, ceil_mode=ceil, return_indices=indices)
    return run


def average(f):
    def run(x, kernel, stride=None, padding=0, ceil=False, count_padding=True):
        return f(x, kernel, stride, padding, ceil_mode=ceil, count_include_pad=count_padding)
    return run


def lp(f):
    return lambda x, p, kernel, stride=None, ceil=False: f(x, p, kernel[0] if x.dim() == 3 else kernel * (3 - len(kernel)), stride, ceil)


def fractional(x, samples, kernel, output):
    return list(F.fractional_max_pool2d(x, kernel * (3 - len(kernel)), output_size=output, _random_samples=samples, return_indices=True))


def rows(row):
    shapes = {1: (2, 3, 11), 2: (2, 3, 7, 9), 3: (1, 2, 5, 6, 7)}
    for n in (1, 2, 3):
        x, ones = shapes[n], [1] * n
        size = 3 if n < 3 else 2  # windows of 27 elements compile for a minute on PoCL
        args = [{"kernel": [size] * n, "stride": [2], "padding": ones}, {"kernel": [2]}, {"kernel": [size], "stride": [2], "ceil": True}]
        for name, indices in ((f"max_pool{n}d", False), (f"max_pool{n}d_with_indices", True)):
            f = maximum(getattr(F, f"max_pool{n}d"), indices)
            row(name, f, [[distinct(*x)]], [*args, {"kernel": [2], "stride": [1], "dilation": [2], "padding": ones}], dtypes=REAL if not indices else ("f32",))
            row(name, f, [[distinct(*x[1:])]], [{"kernel": [2]}])
        row(f"avg_pool{n}d", average(getattr(F, f"avg_pool{n}d")), [[x]], [*args, {"kernel": [size], "stride": [2], "padding": ones, "count_padding": False},
            {"kernel": [size], "stride": [2], "padding": ones, "ceil": True},
            {"kernel": [size], "stride": [2], "padding": ones, "ceil": True, "count_padding": False}], dtypes=REAL)
        for name, shape in ((f"adaptive_avg_pool{n}d", x), (f"adaptive_max_pool{n}d", distinct(*x))):
            row(name, lambda t, size, f=getattr(F, name): f(t, size), [[shape]], [{"size": [3] * n}, {"size": [1] * n}, {"size": [5] * n}], dtypes=REAL)
        row("global_avg_pool", lambda t, n=n: t.mean(tuple(range(2, n + 2)), True), [[x]])
        row("global_max_pool", lambda t, n=n: torch.amax(t, tuple(range(2, n + 2)), True), [[distinct(*x)]])
    row("max_pool2d", maximum(F.max_pool2d, False),
        [[given([[[[1.0, 1.0, 0.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0],
        [3.0, 0.0, 3.0, 0.0, 3.0]]]])]],
        [{"kernel": [2], "stride": [1]}, {"kernel": [3], "stride": [1], "padding": [1]}])
    row("max_pool2d", maximum(F.max_pool2d, False), [[distinct(1, 2, 9, 8)]], [{"kernel": [7, 6], "stride": [1], "padding": [3, 2]}])
    # one window, wider than the input
    row("max_pool2d", maximum(F.max_pool2d, False), [[distinct(2, 1, 1, 5)]], [{"kernel": [3, 2], "stride": [3, 2], "ceil": True}], derive=())
    row("avg_pool2d", average(F.avg_pool2d), [[(2, 1, 1, 5)]], [{"kernel": [3, 2], "stride": [3, 2], "ceil": True}], derive=())
    nothing = [[[-INF, -INF, 2.0, 1.0, -INF]]]  # a window of padding and -infinity: its place is in x and in the window
    for dilation in (1, 2):
        row("max_pool1d_with_indices", maximum(F.max_pool1d, True), [[given(nothing)]],
            [{"kernel": [2], "stride": [1], "dilation": [dilation], "padding": [1]}], grad=False, derive=())
    row("avg_pool2d", average(F.avg_pool2d), [[(1, 2, 9, 8)]], [{"kernel": [7, 6], "stride": [2, 1], "padding": [3, 2], "count_padding": False}])
    samples = near(0.02, 0.98, 2, 3, 2, grad=False)
    row("fractional_max_pool2d", fractional, [[distinct(2, 3, 7, 9), samples]],
        [{"kernel": [2], "output": [4, 5]}, {"kernel": [3, 2], "output": [5, 1]}, {"kernel": [1], "output": [7, 9]}],
        dtypes=("f32",))
    for n in (1, 2):
        row(f"lp_pool{n}d", lp(getattr(F, f"lp_pool{n}d")), [[near(0.1, 2, *shapes[n])]],
            [{"p": 2.0, "kernel": [3]}, {"p": 3.0, "kernel": [2], "stride": [1]}, {"p": 1.0, "kernel": [2]}],
            dtypes=REAL)
