"""Statistics: tests, moments, norms, order statistics, histograms, running extremes."""
import torch

from generate import flags, given, near, whole
from rows_reduce import AXES, over

NAN, INF = float("nan"), float("inf")
REAL = ("f32", "f16", "bf16")
CUBE = [near(-2, 2, 3, 5, 7, distinct=True)]
LONG = [near(-2, 2, 2, 100, distinct=True)]
HOLES = [given([[1.0, NAN, 2.0, -3.0], [NAN, NAN, 0.5, 4.0]])]


def vector_norm(x, axes, keepdim, p=2):
    return torch.linalg.vector_norm(x, float(p), axes, keepdim)


def var_mean(x, axes, keepdim, correction=1):
    return list(torch.var_mean(x, axes, correction=correction, keepdim=keepdim))


def aminmax(x, axes, keepdim):
    return [torch.amin(x, axes, keepdim), torch.amax(x, axes, keepdim)]


def rows(row):
    for name in ("any", "all"):
        f = getattr(torch, name)
        row(name, over(lambda x, axes, keepdim, f=f: f(x, dim=axes, keepdim=keepdim)), [[flags(3, 2, 7)]], AXES, grad=False)
        row(name, over(lambda x, axes, keepdim, f=f: f(x, dim=axes, keepdim=keepdim)),
            [[given([0.0, 0.5])], [given([0.0, NAN])], [(0, 3)]], [{}, {"axes": [0]}], grad=False)
    row("count_nonzero", lambda x, axes=(), keepdim=False: (x != 0).sum(tuple(axes) or tuple(range(x.dim())), keepdim),
        [[whole((3, 5, 7), -1, 2)]], AXES, grad=False)
    row("stddev", over(lambda x, axes, keepdim, correction=1: torch.std(x, axes, correction=correction,
        keepdim=keepdim)), [[(3, 5, 7)]], AXES + [{"correction": 0}], dtypes=REAL)
    row("stddev", over(lambda x, axes, keepdim: torch.std(x, axes)), [[given([2.0, 2.0, 2.0])]])
    row("var_mean", over(var_mean), [[(3, 5, 7)]], AXES + [{"correction": 0}], dtypes=REAL)
    for p in (2, 1, 3, 1.5, 0.5, -1, "inf", "-inf"):
        row("norm", over(vector_norm), [CUBE], [{**a, "p": p} for a in (AXES if p == 2 else AXES[1:3])], dtypes=REAL if p in (2, 3) else ("f32",))
    row("norm", over(vector_norm), [[given([[0.0, 1.0, -2.0], [0.0, 0.0, 0.0]])]], [{"p": p, "axes": [1]} for p in (2, 3)])
    row("norm", over(vector_norm), [[given([[0.0, 1.0, -2.0], [0.0, 0.0, 0.0]])]], [{"p": p, "axes": [1]} for p in (0, -1, 0.5)], grad=False)
    row("aminmax", over(aminmax), [CUBE], AXES, dtypes=("f32", "f16", "i32"))
    row("nansum", over(lambda x, axes, keepdim: torch.nansum(x, axes, keepdim)), [HOLES],
        [{}, {"axes": [0], "keepdim": True}, {"axes": [1]}], dtypes=("f32", "f16"))
    row("nanmean", over(lambda x, axes, keepdim: torch.nanmean(x, axes, keepdim)), [HOLES], [{}, {"axes": [1], "keepdim": True}], dtypes=("f32", "f16"))
    row("nanmean", over(lambda x, axes, keepdim: torch.nanmean(x, axes, keepdim)), [HOLES], [{"axes": [0]}], grad=False)
    row("cov", lambda x, correction=1: torch.cov(x, correction=correction), [[(3, 17)], [(17,)]], [{}, {"correction": 0}], dtypes=REAL)
    row("corrcoef", torch.corrcoef, [[(3, 17)], [(17,)]], dtypes=("f32", "f16"))
    row("corrcoef", torch.corrcoef, [[given([0.1] * 17)]], grad=False, derive=())
    pick = [{}, {"axis": 0}, {"axis": 1, "keepdim": True}]
    row("median", lambda x, axis=-1, keepdim=False: list(torch.median(x, axis, keepdim)),
        [CUBE, [near(-2, 2, 3, 6, 4, distinct=True)]], pick, dtypes=("f32", "f16"))
    row("median", lambda x: list(torch.median(x, -1)), [[given([[3.0, NAN, 1.0], [5.0, 2.0, 7.0]])]], grad=False)
    row("kthvalue", lambda x, k, axis=-1, keepdim=False: list(torch.kthvalue(x, k, axis, keepdim)), [CUBE],
        [{"k": 1}, {"k": 3, "axis": 0}, {"k": 4, "axis": 1, "keepdim": True}],
        dtypes=("f32", "f16"))
    row("quantile", lambda x, q, axis=None,
        keepdim=False: torch.quantile(x, torch.tensor(q, dtype=x.dtype) if isinstance(q, list) else q, axis, keepdim),
        [CUBE],
        [{"q": 0.3}, {"q": 0.5, "axis": 1}, {"q": 1.0, "axis": 0, "keepdim": True}, {"q": [0.0, 0.25, 0.9], "axis": -1},
        {"q": [0.1, 0.6], "keepdim": True}], dtypes=("f32", "f16"))
    row("quantile", lambda x, q, axis: torch.quantile(x, q, axis), [HOLES], [{"q": 0.5, "axis": 0}], grad=False)
    edges = [given([-1.0, -0.5, 0.0, 0.99, 1.0, 1.01, -1.01])]
    row("histogram", lambda x, bins, low, high: torch.histc(x, bins, low, high).long(),
        [[near(-1.5, 1.5, 9, 31)], edges],
        [{"bins": 4, "low": -1.0, "high": 1.0}, {"bins": 40, "low": -1.5, "high": 1.5}],
        grad=False)
    row("bincount", lambda x, length: torch.bincount(x, minlength=length),
        [[whole((50,), 0, 9)], [whole((50,), 0, 9, "i64")], [whole((3,), 0, 9, "u8")]], [{"length": 9}, {"length": 30}],
        grad=False)
    row("bincount", lambda x, w, length: torch.zeros(length, dtype=w.dtype).index_add(0, x, w), [[whole((50,), 0, 9), (50,)]], [{"length": 9}])
    for name in ("cummax", "cummin"):
        f = getattr(torch, name)
        row(name, lambda x, axis, f=f: list(f(x, axis)), [CUBE, LONG], [{"axis": 0}, {"axis": 1}, {"axis": -1}], dtypes=("f32", "f16", "i32"))
        row(name, lambda x, axis, f=f: list(f(x, axis)), [[given([1.0, 1.0, 3.0, -INF, NAN, 2.0, INF, NAN, 5.0])],
            [whole((60,), -3, 4, "i64")], [whole((60,), 0, 250, "u8")]], [{"axis": 0}], grad=False)
    row("logcumsumexp", lambda x, axis: torch.logcumsumexp(x, axis), [CUBE, LONG, [near(-90, 90, 2, 40)]], [{"axis": 0}, {"axis": -1}], dtypes=REAL)
    row("diff", lambda x, times=1, axis=-1: torch.diff(x, times, axis), [[(3, 5, 7)]],
        [{}, {"times": 2, "axis": 1}, {"times": 0}, {"times": 3, "axis": 0}], dtypes=("f32", "f16", "i32"))
    row("diff", lambda x: torch.diff(x), [[flags(4, 9)]], grad=False)
    row("trapezoid", lambda y, dx=1.0, axis=-1: torch.trapezoid(y, dx=dx, dim=axis), [[(3, 5, 7)]], [{}, {"dx": 0.25, "axis": 1}], dtypes=REAL)
    row("trapezoid", lambda y, x, axis=-1: torch.trapezoid(y, x, dim=axis), [[(3, 5, 7), (7,)], [(3, 7), (3, 7)]])
    row("trapezoid", lambda y, x, axis: torch.trapezoid(y, x.reshape(1, 5, 1), dim=axis), [[(3, 5, 7), (5,)]], [{"axis": 1}])
    row("softmin", lambda x, axis=-1: torch.nn.functional.softmin(x, axis), [[(3, 5, 7)]], [{}, {"axis": 0}], dtypes=REAL)
