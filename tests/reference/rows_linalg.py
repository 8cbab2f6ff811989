"""Factorizations, systems, spectra and functions of matrices.

Matrices are made well conditioned inside of the compared function, on both sides alike: definite(a) = a a^T + I, mixed(a) = the rows of 0.4 a + 2 I upside down. What is
unique only up to signs is compared by what is made of it.
"""
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
    row("cholesky", lambda a, upper=False: L.cholesky(definite(a), upper=upper), SQUARE, [{}, {"upper": True}], dtypes=FLOAT)
    row("cholesky_inverse", lambda a, upper=False: torch.cholesky_inverse(L.cholesky(definite(a), upper=upper), upper=upper), SQUARE[:2], [{}, {"upper": True}])
    right = [[near(-1, 1, 3, 3), near(-1, 1, 3, 2)], [near(-1, 1, 2, 5, 5), near(-1, 1, 5, 1)], [near(-1, 1, 4, 4), near(-1, 1, 2, 4, 3)], [near(-1, 1, 3, 3), near(-1, 1, 3, 0)]]
    row("cholesky_solve", lambda a, b, upper=False: torch.cholesky_solve(b, L.cholesky(definite(a), upper=upper), upper=upper), right[:3], [{}, {"upper": True}])
    row("solve", lambda a, b, left=True: L.solve(mixed(a), b, left=left), right, dtypes=FLOAT)
    row("solve", lambda a, b, left=True: L.solve(mixed(a), b, left=left), [[near(-1, 1, 3, 3), near(-1, 1, 3)], [near(-1, 1, 2, 4, 4), near(-1, 1, 2, 4)], [near(-1, 1, 17, 17), near(-1, 1, 17, 4)]])
    row("solve", lambda a, b, left=True: L.solve(mixed(a), b, left=left), [[near(-1, 1, 3, 3), near(-1, 1, 2, 3)], [near(-1, 1, 2, 5, 5), near(-1, 1, 1, 5)]], [{"left": False}])
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
