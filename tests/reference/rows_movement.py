"""Movement, creation and indexing."""
import torch

from generate import whole

ALL = ("f32", "f16", "bf16", "i32", "u8", "bool")
MOST = ("f32", "f16", "i32")


def sliced(x, axis, start=None, stop=None, step=1):
    """Python's slice; PyTorch has no negative steps."""
    index = torch.arange(x.shape[axis])[slice(start, stop, step)] if step > 0 else torch.tensor(
        list(range(x.shape[axis]))[slice(start, stop, step)], dtype=torch.int64)
    return x.index_select(axis % x.dim(), index)


def padded(x, amounts, value=0.0):
    rest = [[0, 0]] * (x.dim() - len(amounts))
    flat = [n for pair in reversed([*amounts, *rest]) for n in pair]  # PyTorch counts from the last axis
    return torch.nn.functional.pad(x, flat, value=value)


def scatter_add(x, indices, source, axis):
    return x.scatter_add(axis, indices.long(), source)


def rows(row):
    x = [(3, 4, 5)]
    row("reshape", lambda x, shape: x.reshape(shape), [x], [{"shape": [12, 5]}, {"shape": [-1]}, {"shape": [5, 1, 12]}], dtypes=ALL)
    row("permute", lambda x, order: x.permute(order), [x], [{"order": [2, 0, 1]}, {"order": [0, 2, 1]}, {"order": [2, 1, 0]}], dtypes=ALL)
    row("transpose", lambda x, axis0=-2, axis1=-1: x.transpose(axis0, axis1), [x], [{}, {"axis0": 0, "axis1": 2}], dtypes=ALL)
    row("expand", lambda x, shape: x.expand(shape), [[(4, 1)], [(1,)]], [{"shape": [3, 4, 5]}], dtypes=MOST)
    row("squeeze", lambda x, axis=None: x.squeeze() if axis is None else x.squeeze(axis), [[(3, 1, 5, 1)]], [{}, {"axis": 1}, {"axis": -1}], dtypes=MOST)
    row("unsqueeze", lambda x, axis: x.unsqueeze(axis), [x], [{"axis": 0}, {"axis": -1}, {"axis": 2}], dtypes=MOST)
    row("slice", sliced, [[(7, 9)]], [{"axis": 0, "start": 1, "stop": 6}, {"axis": 1, "start": -5, "stop": -1},
        {"axis": 1, "step": 3}, {"axis": 0, "step": -2}, {"axis": 1, "start": 4, "stop": 4}],
        dtypes=ALL)
    row("flip", lambda x, axes: x.flip(axes), [x], [{"axes": [0]}, {"axes": [1, 2]}], dtypes=ALL)
    row("pad", padded, [x], [{"amounts": [[0, 0], [1, 2]], "value": 0.5}, {"amounts": [[2, 0], [0, 0], [1, 1]]}], dtypes=("f32", "f16"))
    for axis in (0, 1, -1):
        shapes = [tuple(n if k == axis % 3 else d for k, d in enumerate((3, 4, 5))) for n in (2, 1, 3)]
        row("concat", lambda *parts, axis: torch.cat(parts, axis), [shapes], [{"axis": axis}], dtypes=MOST)
    row("split", lambda x, sizes, axis: list(x.split(sizes, axis)), [[(6, 5)]], [{"sizes": [1, 3, 2], "axis": 0}, {"sizes": [2, 3], "axis": 1}], dtypes=MOST)
    row("take", lambda x, indices, axis=0: torch.stack([x.index_select(axis, i.reshape(-1)) for i in [indices.long()]])[0].reshape(
        x.shape[:axis % x.dim()] + indices.shape + x.shape[axis % x.dim() + 1:]), [[(5, 6), whole((2, 3), 0, 5)]], [{}, {"axis": 1}, {"axis": -1}], dtypes=MOST)
    row("gather", lambda x, indices, axis: x.gather(axis, indices.long()),
        [[(5, 6), whole((3, 6), 0, 5)], [(5, 6), whole((5, 2), 0, 5, "i64")]], [{"axis": 0}, {"axis": 1}], dtypes=MOST,
        pairs=True)
    row("embedding", lambda w, i: torch.nn.functional.embedding(i.long(), w), [[(9, 5), whole((2, 7), 0, 9)]], dtypes=("f32", "f16"))
    row("one_hot", lambda i, classes: torch.nn.functional.one_hot(i.long(), classes).double(),
        [[whole((7,), 0, 5)], [whole((2, 3), 0, 5, "i64")]], [{"classes": 5}], grad=False)
    row("scatter_add", scatter_add, [[(5, 6), whole((9, 6), 0, 5), (9, 6)], [(5, 6), whole((5, 8), 0, 6), (5, 8)]], [{"axis": 0}, {"axis": 1}], pairs=True)
    row("index_add", lambda x, indices, source: x.index_add(0, indices.long(), source), [[(5, 6), whole((9,), 0, 5), (9, 6)]])
    row("eye", lambda x: torch.eye(4, 6).double() * x, [[(6,)]])
    row("matmul", torch.matmul, [[(5, 7), (7, 3)], [(2, 5, 7), (7, 3)], [(7,), (7, 3)], [(2, 1, 5, 7), (3, 7, 4)],
        [(5, 7), (7,)], [(7,), (7,)]], dtypes=("f32", "f16", "bf16"))
