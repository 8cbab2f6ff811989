"""Resampling, grids, local response norm, embedding bags."""
import torch

from generate import near, whole

F = torch.nn.functional
REAL = ("f32", "f16")
LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


def interpolate(x, size=None, scale=None, mode="nearest", align_corners=False):
    name = {"nearest": "nearest", "linear": LINEAR[x.dim()], "cubic": "bicubic"}[mode]
    whole_sizes = dict(size=size if len(size) > 1 else size * (x.dim() - 2)) if size else dict(scale_factor=scale if len(scale) > 1 else scale * (x.dim() - 2))
    return F.interpolate(x, mode=name, **whole_sizes, **({} if mode == "nearest" else {"align_corners": align_corners}))


def grid_sample(x, grid, mode="linear", padding="zeros", align_corners=False):
    return F.grid_sample(x, grid, mode={"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}[mode],
        padding_mode=padding, align_corners=align_corners)


def rows(row):
    sizes = [{"size": [5]}, {"scale": [2.0]}, {"scale": [0.63]}]
    smooth = [{**s, "align_corners": a} for s in sizes for a in (False, True)]
    for shape in ((2, 3, 7), (1, 2, 4, 6), (1, 2, 3, 4, 3)):
        row("interpolate", interpolate, [[shape]], sizes, dtypes=REAL)
        row("interpolate", interpolate, [[shape]], [{**s, "mode": "linear"} for s in smooth], dtypes=REAL)
    row("interpolate", interpolate, [[(1, 2, 4, 6)]], [{**s, "mode": "cubic"} for s in smooth] + [{"size": [9, 3], "mode": "cubic"}], dtypes=REAL)
    row("affine_grid", lambda theta, size, align_corners=False: F.affine_grid(theta, size, align_corners),
        [[(2, 2, 3)]], [{"size": [2, 3, 4, 5]}, {"size": [2, 1, 3, 2], "align_corners": True}], dtypes=REAL)
    for padding in ("zeros", "border", "reflection"):
        for align in (False, True):
            row("grid_sample", grid_sample, [[(2, 3, 5, 4), near(-1.3, 1.3, 2, 3, 6, 2)]], [{"padding": padding, "align_corners": align}], dtypes=("f32",))
            row("grid_sample", grid_sample, [[(2, 3, 5, 4), near(-1.3, 1.3, 2, 3, 6, 2, grad=False)]],
                [{"padding": padding, "align_corners": align, "mode": "nearest"}], dtypes=("f32",))
            row("grid_sample", grid_sample, [[near(-1, 1, 1, 2, 5, 4), near(-1.6, 1.6, 1, 3, 4, 2)]],
                [{"padding": padding, "align_corners": align, "mode": "cubic"}], dtypes=("f32",))
    row("grid_sample", grid_sample, [[(1, 2, 3, 1), near(-4, 4, 1, 3, 6, 2)]],
        [{"padding": "reflection", "align_corners": align} for align in (False, True)], dtypes=("f32",))
    row("local_response_norm", lambda x, size, **how: F.local_response_norm(x, size, **how), [[(2, 7, 5)], [(1, 4, 3, 2)]],
        [{"size": 3}, {"size": 2, "alpha": 0.5, "beta": 0.6, "k": 2.0}, {"size": 9, "alpha": 1.0}], dtypes=REAL)
    row("embedding_bag", lambda i, w, mode: F.embedding_bag(i.long(), w, mode=mode),
        [[whole((4, 3), 0, 8), near(-2, 2, 8, 5, distinct=True)]], [{"mode": m} for m in ("sum", "mean", "max")],
        dtypes=REAL)
