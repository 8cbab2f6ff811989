"""Special functions."""
import math

import torch

from generate import Input, given, near

S = torch.special
REAL = ("f32", "f16", "bf16")
INF, NAN = float("inf"), float("nan")


def ndtri(p):
    """torch.special.ndtri has no derivative of its own for all inputs; the same function by erfinv in double."""
    return S.ndtri(p)


def rows(row):
    near_zero, ends = given([0.0, -0.0, 1e-4, -1e-4, 7.999, 8.0, 8.001, -20.0, 40.0]), given([INF, -INF, NAN])
    for name, f in {"bessel_i0": S.i0, "bessel_i0e": S.i0e, "bessel_i1": S.i1, "bessel_i1e": S.i1e}.items():
        row(name, f, [[near(-12, 12, 4, 9)], [near_zero]], dtypes=REAL)
        row(name, f, [[given([100.0, -300.0]) if name.endswith("e") else given([60.0, -80.0])]])
        row(name, f, [[ends]], grad=False)
    for name, f in {"bessel_j0": S.bessel_j0, "bessel_j1": S.bessel_j1}.items():
        row(name, f, [[near(-30, 30, 4, 9)], [near_zero], [given([100.0, -700.0])]], dtypes=REAL, grad=False)
    # PyTorch has no gradients of these: by their recurrences.
    j0 = lambda x: torch.ops.aten.special_bessel_j0(x.detach()) - (x - x.detach()) * S.bessel_j1(x.detach())
    j1 = lambda x: S.bessel_j1(x.detach()) + (x - x.detach()) * (S.bessel_j0(x.detach()) - S.bessel_j1(x.detach()) / x.detach())
    row("bessel_j0", j0, [[near(-30, 30, 4, 9)], [near(0.1, 1, 5)]])
    row("bessel_j1", j1, [[near(-30, 30, 4, 9)], [near(0.1, 1, 5)]])
    for name, f in {"bessel_y0": S.bessel_y0, "bessel_y1": S.bessel_y1}.items():
        row(name, f, [[near(0.05, 30, 4, 9)], [given([1e-4, 7.999, 8.0, 8.001, 100.0, 700.0])], [given([0.0, -1.0, NAN])]], dtypes=REAL, grad=False)
    y0 = lambda x: torch.ops.aten.special_bessel_y0(x.detach()) - (x - x.detach()) * S.bessel_y1(x.detach())
    y1 = lambda x: S.bessel_y1(x.detach()) + (x - x.detach()) * (S.bessel_y0(x.detach()) - S.bessel_y1(x.detach()) / x.detach())
    row("bessel_y0", y0, [[near(0.5, 30, 4, 9)], [near(0.1, 1, 5)]])
    row("bessel_y1", y1, [[near(0.5, 30, 4, 9)], [near(0.1, 1, 5)]])
    for name, f in {"igamma": S.gammainc, "igammac": S.gammaincc}.items():
        order = Input((4, 9), 0.2, 12, grad=False)
        row(name, f, [[order, near(0.05, 15, 4, 9)], [Input((3, 1), 0.5, 4, grad=False), near(0.1, 6, 5)]], dtypes=("f32", "f16"))
        row(name, f, [[Input((6,), values=[20.0, 99.0, 300.0, 999.0, 2000.0, 30000.0], grad=False), given([22.0, 90.0, 310.0, 1000.0, 2050.0, 30100.0])]])
        row(name, f, [[given([0.0, 2.0, 0.0, INF, 2.0, INF, -1.0, 1.0, NAN]), given([1.0, 0.0, 0.0, 1.0, INF, INF, 1.0, -1.0, 1.0])]], grad=False)
    row("polygamma", lambda x, n: torch.polygamma(n, x), [[near(0.2, 9, 3, 8)]], [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 5}], dtypes=("f32", "bf16"))
    tail = lambda s, q: S.zeta(s.detach(), q.detach()) - (q - q.detach()) * s.detach() * S.zeta(s.detach() + 1, q.detach())
    row("zeta", tail, [[Input((3, 8), 1.2, 9, grad=False), near(0.3, 9, 3, 8)], [Input((), 1.5, 2, grad=False), near(0.3, 3, 5)]], dtypes=("f32", "f16"))
    row("zeta", S.zeta, [[given([1.0, 0.5, 2.0, 2.0]), given([2.0, 2.0, 1.0, 0.5])]], grad=False)
    row("multigammaln", lambda x, p: torch.mvlgamma(x, p), [[near(2, 9, 3, 5)]], [{"p": 1}, {"p": 4}], dtypes=("f32", "f16"))
    row("ndtr", S.ndtr, [[near(-6, 6, 4, 9)], [given([0.0, 40.0, -40.0])]], dtypes=REAL)
    row("log_ndtr", S.log_ndtr, [[near(-9, 6, 4, 9)], [given([0.0, -1.0, -0.9999, -30.0, 8.0])]], dtypes=("f32", "bf16"))
    row("ndtri", ndtri, [[near(0.01, 0.99, 4, 9)], [given([0.5, 0.075, 0.925, 1e-4, 1e-9])]], dtypes=("f32", "bf16"))
    row("ndtri", ndtri, [[given([0.0, 1.0, -0.5, 1.5, NAN])]], grad=False)
    row("erfcx", S.erfcx, [[near(-3, 9, 4, 9)], [given([0.0, -1e-3, 1e-3, 30.0, 1e4])]], dtypes=("f32", "bf16"))
    row("erfcx", S.erfcx, [[given([INF, -INF, NAN, -20.0])]], grad=False)
    row("entr", S.entr, [[near(0.01, 3, 4, 6)]], dtypes=REAL)
    row("entr", S.entr, [[given([0.0, -1.0, 1.0, INF, NAN])]], grad=False)
    row("xlog1py", S.xlog1py, [[(4, 6), near(-0.9, 3, 4, 6)], [(4, 6), near(-0.9, 3, 6)]], dtypes=("f32", "f16"))
    row("xlog1py", S.xlog1py, [[given([0.0, 0.0, 1.0, 0.0]), given([-1.0, -2.0, 0.0, math.inf])]], grad=False)
    row("logaddexp2", torch.logaddexp2, [[near(-9, 9, 4, 6), near(-9, 9, 4, 6)], [(4, 1), (6,)]], dtypes=("f32", "f16"))
