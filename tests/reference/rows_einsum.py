"""Contractions, named products and distances."""
import torch

from generate import given, near, whole

F = torch.nn.functional
FLOAT = ("f32", "f16", "bf16")


def p_of(p=2.0, p_text=""):
    return float("inf") if p_text == "infinity" else p


EINSUMS = {
    "ij,jk->ik": [(4, 5), (5, 3)], "ij,jk": [(4, 5), (5, 3)], "ba,ac": [(3, 4), (4, 5)], "ii->i": [(4, 4)],
    "ii": [(4, 4)], "iij->ij": [(3, 3, 4)], "iji->j": [(3, 4, 3)], "ij->ji": [(3, 4)],
    "ji": [(3, 4)], "ij->": [(3, 4)], "ij->j": [(3, 4)], "i,j->ij": [(3,), (4,)], "i,i->": [(5,), (5,)],
    "i,i->i": [(5,), (5,)], "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bhqd,bhkd->bhqk": [(2, 2, 3, 4), (2, 2, 5, 4)], "bqhd,bkhd->bhqk": [(2, 3, 2, 4), (2, 5, 2, 4)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (5, 4, 2)], "...ij->...": [(2, 3, 4)], "...,...": [(2, 3), (3,)],
    "i...->...i": [(2, 3, 4)], "i...": [(2, 3)], "...i,...i->": [(2, 3), (2, 3)], "ijk,jil->kl": [(2, 3, 4), (3, 2, 5)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 2)], "ij,jk,kl,lm->im": [(2, 3), (3, 4), (4, 2), (2, 3)],
    "bn,anm,bm->ba": [(2, 3), (4, 3, 5), (2, 5)], "ii,jj->ij": [(3, 3), (2, 2)],
    "ij,ij,ij->i": [(3, 4), (3, 4), (3, 4)], "ij,ik->": [(3, 4), (3, 5)], "ij,jk->k": [(1, 4), (4, 3)],
    "ij,ij->ij": [(1, 4), (3, 1)],
    "aB,Bc->ac": [(2, 3), (3, 4)], "cB,Ba": [(2, 3), (3, 4)], "i j , j k -> i k": [(2, 3), (3, 4)], ",i->i": [(), (4,)],
    "abc,abd,abe->acde": [(2, 3, 2), (2, 3, 3), (2, 3, 2)], "...a,ab->...b": [(3,), (3, 4)],
    "aabb->ab": [(2, 2, 3, 3)], "aaa->a": [(3, 3, 3)],
}


def rows(row):
    for equation, shapes in EINSUMS.items():
        row("einsum", lambda *x, equation: torch.einsum(equation, *x), [shapes], [{"equation": equation}],
            dtypes=FLOAT if equation in ("ij,jk->ik", "bqhd,bkhd->bhqk") else ("f32",))
    row("einsum", lambda *x, equation: torch.einsum(equation, *x), [[(4, 5), (5, 3)]], [{"equation": "ij,jk->ki"}], dtypes=("i32",))
    row("tensordot", lambda a, b, axes=2: torch.tensordot(a, b, axes), [[(2, 3, 4), (3, 4, 5)]], [{}], dtypes=FLOAT)
    row("tensordot", lambda a, b, axes=2: torch.tensordot(a, b, axes), [[(2, 3), (3, 4)], [(2, 3), (3,)]], [{"axes": 1}])
    row("tensordot", lambda a, b, axes=2: torch.tensordot(a, b, axes), [[(2, 3), (4,)]], [{"axes": 0}])
    row("tensordot", lambda a, b, axes_a, axes_b: torch.tensordot(a, b, (axes_a, axes_b)), [[(2, 3, 4), (4, 5, 2)]],
        [{"axes_a": [0, -1], "axes_b": [2, 0]}, {"axes_a": [2], "axes_b": [0]}])
    row("outer", torch.outer, [[(4,), (5,)]], dtypes=(*FLOAT, "i32"))
    row("inner", torch.inner, [[(3, 4), (2, 5, 4)], [(4,), (4,)], [(), (3,)], [(3, 4), (4,)]], dtypes=FLOAT)
    row("dot", torch.dot, [[(9,), (9,)]], dtypes=FLOAT)
    row("vdot", torch.vdot, [[(9,), (9,)]], dtypes=("f32",))
    row("mv", torch.mv, [[(4, 5), (5,)]], dtypes=FLOAT)
    row("mm", torch.mm, [[(4, 5), (5, 3)]], dtypes=FLOAT)
    row("bmm", torch.bmm, [[(2, 4, 5), (2, 5, 3)]], dtypes=FLOAT)
    ways = [{}, {"beta": 0.5, "alpha": 2.0}, {"beta": 0.0}]
    scaled = lambda f: lambda x, a, b, beta=1.0, alpha=1.0: f(x, a, b, beta=beta, alpha=alpha)
    row("addmv", scaled(torch.addmv), [[(4,), (4, 5), (5,)], [(1,), (4, 5), (5,)]], ways[:2], dtypes=("f32", "f16"))
    row("addmm", scaled(torch.addmm), [[(4, 3), (4, 5), (5, 3)], [(3,), (4, 5), (5, 3)]], ways[:2], dtypes=FLOAT)
    row("baddbmm", scaled(torch.baddbmm), [[(2, 4, 3), (2, 4, 5), (2, 5, 3)], [(4, 1), (2, 4, 5), (2, 5, 3)]], ways[:2], dtypes=("f32", "f16"))
    row("addmm", scaled(torch.addmm), [[(4, 3), (4, 5), (5, 3)]], ways[2:], grad=False)
    affine = lambda x, w, b=0.0: x @ (w.T if w.dim() == 2 else w) + b  # F.linear refuses a weight of one axis beside a matrix
    row("linear", affine, [[(3, 5), (4, 5)], [(2, 3, 5), (4, 5)], [(5,), (4, 5)], [(3, 5), (5,)]], dtypes=FLOAT)
    row("linear", affine, [[(3, 5), (4, 5), (4,)], [(2, 3, 5), (4, 5), (4,)], [(3, 5), (5,), ()]], dtypes=FLOAT)
    row("bilinear", F.bilinear, [[(3, 4), (3, 5), (2, 4, 5)], [(2, 3, 4), (2, 3, 5), (2, 4, 5)]], dtypes=("f32", "f16"))
    row("bilinear", F.bilinear, [[(3, 4), (3, 5), (2, 4, 5), (2,)]])
    row("kron", torch.kron, [[(2, 3), (3, 2)], [(2,), (3, 2)], [(), (3,)], [(2, 1, 3), (2, 2)]], dtypes=(*FLOAT, "i32"))
    row("cross", lambda a, b, axis=-1: torch.linalg.cross(a, b, dim=axis), [[(4, 3), (4, 3)], [(4, 3), (1, 3)]], dtypes=FLOAT)
    row("cross", lambda a, b, axis=-1: torch.linalg.cross(a, b, dim=axis), [[(3, 4), (3, 4)]], [{"axis": 0}])
    row("matrix_power", lambda x, n: torch.matrix_power(x, n), [[near(-1, 1, 4, 4)], [near(-1, 1, 2, 3, 3)]], [{"n": 3}, {"n": 1}, {"n": 6}], dtypes=("f32",))
    row("matrix_power", lambda x, n: torch.matrix_power(x, n), [[given([[1.5, 0.25, 0.5], [-0.25, 2.0, 0.125], [0.5, 0.75, -1.25]])]], [{"n": -1}, {"n": -3}])
    row("matrix_power", lambda x, n: torch.matrix_power(x, n), [[near(-1, 1, 2, 3, 3)]], [{"n": 0}], grad=False)
    row("multi_dot", lambda *m: torch.linalg.multi_dot(m),
        [[(3, 4), (4, 2), (2, 5)], [(3, 4), (4, 2)], [(6, 2), (2, 7), (7, 3), (3, 2)], [(4,), (4, 2), (2,)],
        [(4,), (4, 2), (2, 3)]])
    powers = [{}, {"p": 1.0}, {"p": 3.0}, {"p_text": "infinity"}, {"p": 1.5}]
    row("cdist", lambda a, b, **how: torch.cdist(a, b, p_of(**how), compute_mode="donot_use_mm_for_euclid_dist"),
        [[near(-2, 2, 4, 3, distinct=True), near(-2.1, 2.2, 5, 3, distinct=True)],
        [near(-2, 2, 2, 4, 3, distinct=True), near(-2.1, 2.2, 5, 3, distinct=True)]], powers)
    row("cdist", torch.cdist, [[given([[1.0, 2.0], [0.5, 0.0]]), given([[1.0, 2.0], [3.0, 1.0]])]], dtypes=("f32", "f16"))
    row("pairwise_distance", lambda a, b, epsilon=1e-6, keepdim=False, **how: F.pairwise_distance(a, b, p_of(**how),
        epsilon, keepdim), [[(4, 5), (4, 5)], [(4, 5), (5,)]], [*powers[:3], {"keepdim": True}, {"epsilon": 0.125}],
        dtypes=("f32", "f16"))
    row("cosine_similarity", lambda a, b, axis=1, epsilon=1e-8: F.cosine_similarity(a, b, axis, epsilon),
        [[(4, 5), (4, 5)], [(2, 4, 5), (4, 5)]], [{}, {"axis": -1}], dtypes=FLOAT)
    row("cosine_similarity", lambda a, b, axis: F.cosine_similarity(a, b, axis), [[(4, 5), (4, 1)]], [{"axis": 0}])
    row("cosine_similarity", F.cosine_similarity, [[given([[1.0, 2.0]]), given([[3.0, -1.0]])]])
    row("normalize", lambda x, axis=1, epsilon=1e-12, **how: F.normalize(x, p_of(**how), axis, epsilon),
        [[(4, 5)], [(2, 4, 5)]], [*powers[:3], {"axis": 0}, {"axis": -1, "epsilon": 9.0}], dtypes=FLOAT)
    row("normalize", F.normalize, [[given([[0.0, 0.0], [3.0, 4.0]])]], grad=False)
