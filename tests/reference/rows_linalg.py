"""Factorizations, systems, spectra and functions of matrices.

Matrices are made well conditioned inside of the compared function, on both sides alike: definite(a) = a a^T + I,
mixed(a) = the rows of 0.4 a + 2 I upside down. What is unique only up to signs is compared by what is made of it.
"""
import functools

import torch

from generate import given, near

L = torch.linalg


def identity(a):
    return torch.eye(a.shape[-1], dtype=a.dtype)


def definite(a):
    return a @ a.mT + identity(a)


def mixed(a):
    return torch.flip(0.4 * a + 2 * identity(a), (-2,))


def triangle(a):
    return a + 3 * identity(a)


SQUARE = [[near(-1, 1, 3, 3)], [near(-1, 1, 2, 5, 5)], [near(-1, 1, 1, 1)], [near(-1, 1, 0, 3, 3)]]
FLOAT = ("f32", "f16")


def triangular(t, b, upper=False, left=True, transposed=False, unit=False):
    return L.solve_triangular(t.mT if transposed else t, b, upper=upper != transposed, left=left, unitriangular=unit)


def rows(row):
    # How far a NaN or an infinity spreads inside of a factorization is LAPACK's order of operations;
    # tests/conformance/linalg_test.cpp has what Heddle promises.
    row = functools.partial(row, derive=("empty",))
    row("cholesky", lambda a, upper=False: L.cholesky(definite(a), upper=upper), SQUARE, [{}, {"upper": True}], dtypes=FLOAT)
    row("cholesky_inverse", lambda a, upper=False: torch.cholesky_inverse(L.cholesky(definite(a), upper=upper), upper=upper), SQUARE[:2], [{}, {"upper": True}])
    right = [[near(-1, 1, 3, 3), near(-1, 1, 3, 2)], [near(-1, 1, 2, 5, 5), near(-1, 1, 5, 1)],
        [near(-1, 1, 4, 4), near(-1, 1, 2, 4, 3)], [near(-1, 1, 3, 3), near(-1, 1, 3, 0)]]
    row("cholesky_solve", lambda a, b, upper=False: torch.cholesky_solve(b, L.cholesky(definite(a), upper=upper),
        upper=upper), right[:3], [{}, {"upper": True}])
    row("solve", lambda a, b, left=True: L.solve(mixed(a), b, left=left), right, dtypes=FLOAT)
    row("solve", lambda a, b, left=True: L.solve(mixed(a), b, left=left),
        [[near(-1, 1, 3, 3), near(-1, 1, 3)], [near(-1, 1, 2, 4, 4), near(-1, 1, 2, 4)],
        [near(-1, 1, 17, 17), near(-1, 1, 17, 4)]])
    row("solve", lambda a, b, left=True: L.solve(mixed(a), b, left=left),
        [[near(-1, 1, 3, 3), near(-1, 1, 2, 3)], [near(-1, 1, 2, 5, 5), near(-1, 1, 1, 5)]], [{"left": False}])
    forms = [{"upper": bool(f & 1), "left": not f & 2, "transposed": bool(f & 4), "unit": bool(f & 8)} for f in (0, 1, 4, 5, 8, 13)]
    row("solve_triangular", lambda t, b, **how: triangular(triangle(t), b, **how), [[near(-1, 1, 2, 5, 5), near(-1, 1, 5, 3)]], forms, dtypes=FLOAT)
    forms = [{"upper": bool(f & 1), "left": False, "transposed": bool(f & 4), "unit": bool(f & 8)} for f in (2, 3, 6, 15)]
    row("solve_triangular", lambda t, b, **how: triangular(triangle(t), b, **how), [[near(-1, 1, 5, 5), near(-1, 1, 2, 3, 5)]], forms)
    row("inverse", lambda a: L.inv(mixed(a)), SQUARE, dtypes=FLOAT)
    row("det", lambda a: L.det(a), [[near(-1, 1, 3, 3)], [near(-1, 1, 2, 4, 4)], [near(-1, 1, 1, 1)], [near(-1, 1, 2, 0, 0)]], dtypes=FLOAT)
    row("det", lambda a: L.det(a), [[given([[1.0, 2.0], [2.0, 4.0]])]], grad=False)
    row("slogdet", lambda a: L.slogdet(mixed(a)), SQUARE[:3])
    row("logdet", lambda a: torch.logdet(definite(a)), SQUARE[:3])
    row("lu", lambda a: L.lu(a), [[near(-1, 1, 4, 4)], [near(-1, 1, 2, 5, 3)], [near(-1, 1, 2, 3, 5)], [near(-1, 1, 1, 1)], [near(-1, 1, 17, 17)]])
    row("lu_solve", lambda a, b, left=True, transposed=False: L.lu_solve(*L.lu_factor(mixed(a)), b if left else b, left=left, adjoint=transposed),
        [[near(-1, 1, 2, 4, 4), near(-1, 1, 2, 4, 4)]],
        [{}, {"transposed": True}, {"left": False}, {"left": False, "transposed": True}])
    symmetric = lambda a: a + a.mT
    composed = lambda u, f, vt: (u * f.unsqueeze(-2)) @ vt
    SHAPES = [[near(-1, 1, 4, 4)], [near(-1, 1, 2, 5, 3)], [near(-1, 1, 3, 5)], [near(-1, 1, 1, 1)], [near(-1, 1, 0, 3, 2)]]

    def eigh(a, upper=False):
        w, v = L.eigh(symmetric(a), "U" if upper else "L")
        return [w, composed(v, torch.sin(w), v.mT)]

    def svd(a):
        u, s, vt = L.svd(a, full_matrices=False)
        return [s, composed(u, torch.sin(s), vt)]

    row("qr", lambda a, mode="reduced": [x for x in L.qr(a, mode) if x.numel() or mode != "r"], SHAPES, dtypes=("f32",))
    row("qr", lambda a, mode: L.qr(a, mode), SHAPES[1:2], [{"mode": "complete"}], grad=False)
    row("eigh", eigh, [[near(-1, 1, 4, 4)], [near(-1, 1, 2, 5, 5)], [near(-1, 1, 1, 1)]], [{}, {"upper": True}])
    row("eigvalsh", lambda a: L.eigvalsh(symmetric(a)), [[near(-1, 1, 2, 5, 5)]], dtypes=("f32", "f16"))
    row("svd", svd, SHAPES[:4])
    row("svdvals", L.svdvals, SHAPES[:4], dtypes=("f32", "f16"))
    row("pinv", lambda a: L.pinv(a), SHAPES[1:4])
    low = given([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    row("pinv", lambda a: L.pinv(a), [[low]], grad=False)
    row("matrix_rank", lambda a: L.matrix_rank(a), [[low], [near(-1, 1, 2, 5, 3)]], out="i64")
    row("matrix_rank", lambda a, absolute: L.matrix_rank(a, atol=absolute, rtol=0.0), [[near(-1, 1, 2, 5, 3)]], [{"absolute": 1.0}], out="i64")
    row("lstsq", lambda a, b: L.lstsq(a, b, driver="gelsd").solution,
        [[near(-1, 1, 5, 3), near(-1, 1, 5, 2)], [near(-1, 1, 2, 3, 5), near(-1, 1, 2, 3, 2)]], dtypes=("f32",))
    orders = {"frobenius": "fro", "nuclear": "nuc", "one": 1, "minus_one": -1, "two": 2, "minus_two": -2,
        "infinity": float("inf"), "minus_infinity": -float("inf")}
    row("matrix_norm", lambda a, norm, keepdim=False: L.matrix_norm(a, orders[norm], keepdim=keepdim),
        [[near(-1, 1, 2, 4, 3)]], [{"norm": name} for name in orders] + [{"norm": "two", "keepdim": True}])
    row("condition_number", lambda a, norm: L.cond(mixed(a), orders[norm]) if "two" in norm else L.matrix_norm(mixed(a),
        orders[norm]) * L.matrix_norm(L.inv(mixed(a)), orders[norm]), [[near(-1, 1, 2, 4, 4)]],
        [{"norm": name} for name in ("one", "two", "minus_two", "infinity", "frobenius")])
    row("matrix_exp", torch.matrix_exp, [[near(-1, 1, 3, 3)], [near(-2, 2, 2, 5, 5)], [near(-9, 3, 4, 4)],
        [near(-0.1, 0.1, 2, 2)], [near(-1, 1, 0, 0)]], dtypes=("f32", "f16"))
