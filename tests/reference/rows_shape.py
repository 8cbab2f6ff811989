"""Shapes, windows and picking."""
import torch

from generate import flags, given, near, whole

F = torch.nn.functional
MOST = ("f32", "f16", "i32")
FLOAT = ("f32", "f16", "bf16")
NAN = float("nan")


def put(x, values, *indices):
    return x.index_put(tuple(i.long() for i in indices), values)


def windows(f):
    def run(x, kernel, size=None, dilation=(1,), padding=(0,), stride=(1,)):
        pair = lambda v: tuple(v) if len(v) == 2 else (v[0], v[0])
        how = dict(kernel_size=pair(kernel), dilation=pair(dilation), padding=pair(padding), stride=pair(stride))
        return f(x, pair(size), **how) if size else f(x, **how)
    return run


def once(x):
    values, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True)
    return [values, inverse, counts]


def last_wins(x, indices, source, axis):
    """scatter with repeated indices, in order; PyTorch leaves the order open."""
    out, source = x, source[tuple(slice(0, n) for n in indices.shape)]  # (PyTorch has no gradient of a larger source)
    for j in range(indices.shape[axis]):
        out = out.scatter(axis, indices.narrow(axis, j, 1).long(), source.narrow(axis, j, 1))
    return out


def rows(row):
    x = [(3, 4, 5)]
    row("roll", lambda x, shifts, axes=(): x.roll(shifts, axes), [x],
        [{"shifts": [7]}, {"shifts": [2, -1], "axes": [2, 0]}, {"shifts": [-9], "axes": [-1]},
        {"shifts": [4], "axes": [1]}], dtypes=MOST)
    row("repeat", lambda x, repeats: x.repeat(*repeats), [x], [{"repeats": [2, 1, 3]}, {"repeats": [2, 3, 1, 1]},
        {"repeats": [1, 0, 2]}, {"repeats": [2, 1, 2, 2, 3, 2]}], dtypes=MOST)
    row("tile", lambda x, repeats: x.tile(repeats), [x], [{"repeats": [2, 3]}, {"repeats": [2, 1, 1, 2]}, {"repeats": [2]}], dtypes=MOST)
    row("repeat_interleave", lambda x, repeats, axis=None: x.repeat_interleave(repeats, axis), [x],
        [{"repeats": 3, "axis": 1}, {"repeats": 2}, {"repeats": 2, "axis": -1}], dtypes=MOST)
    row("stack", lambda *parts, axis=0: torch.stack(parts, axis), [[(3, 4)] * 3], [{}, {"axis": 1}, {"axis": -1}], dtypes=MOST)
    row("unstack", lambda x, axis=0: list(x.unbind(axis)), [x], [{}, {"axis": -2}], dtypes=MOST)
    row("chunk", lambda x, chunks, axis=0: list(x.chunk(chunks, axis)), [[(7, 5)]],
        [{"chunks": 3}, {"chunks": 4, "axis": 1}, {"chunks": 9, "axis": -1}], dtypes=MOST)
    for name, f in {"hstack": torch.hstack, "vstack": torch.vstack, "dstack": torch.dstack}.items():
        shapes = {"hstack": [(3, 4), (3, 2)], "vstack": [(3, 4), (4,)], "dstack": [(3, 4), (3, 4, 2)]}[name]
        row(name, lambda *parts, f=f: f(parts), [shapes, [(5,), (5,)], [(), ()]], dtypes=MOST)
    row("swapaxes", lambda x, axis0, axis1: x.swapaxes(axis0, axis1), [x], [{"axis0": 0, "axis1": -1}, {"axis0": 1, "axis1": 0}], dtypes=MOST)
    row("moveaxis", lambda x, source, destination: x.movedim(source, destination), [x],
        [{"source": [0], "destination": [-1]}, {"source": [0, 2], "destination": [1, 0]}], dtypes=MOST)
    row("flatten", lambda x, start=0, end=-1: x.flatten(start, end), [x], [{}, {"start": 1}, {"end": 1}, {"start": -2, "end": -1}], dtypes=MOST)
    row("flatten", torch.flatten, [[()]])
    row("unflatten", lambda x, axis, sizes: x.unflatten(axis, sizes), [[(3, 12)]],
        [{"axis": 1, "sizes": [2, -1]}, {"axis": 0, "sizes": [3, 1]}, {"axis": -1, "sizes": [2, 2, 3]}], dtypes=MOST)
    row("ravel", torch.ravel, [x, [()]], dtypes=MOST)
    row("broadcast_to", lambda x, shape: x.broadcast_to(shape), [[(4, 1)], [(1,)]], [{"shape": [3, 4, 5]}], dtypes=MOST)
    row("broadcast_tensors", lambda *t: list(torch.broadcast_tensors(*t)), [[(4, 1), (3,), ()], [(2, 3)]], dtypes=MOST)
    for name, f in {"atleast_1d": torch.atleast_1d, "atleast_2d": torch.atleast_2d, "atleast_3d": torch.atleast_3d}.items():
        row(name, f, [[()], [(4,)], [(3, 4)], [(2, 3, 4)]], dtypes=("f32", "i32"))
    row("meshgrid", lambda *v, indexing="ij": list(torch.meshgrid(*v, indexing=indexing)),
        [[(3,), (4,)], [(3,), (), (2,)]], [{}, {"indexing": "xy"}], dtypes=MOST)
    row("rot90", lambda x, k=1, axes=(0, 1): x.rot90(k, axes), [x],
        [{}, {"k": 2}, {"k": -1}, {"k": 4}, {"k": 1, "axes": [2, 0]}, {"k": 3, "axes": [1, 2]}], dtypes=MOST)
    row("fliplr", torch.fliplr, [x], dtypes=MOST)
    row("flipud", torch.flipud, [x, [(4,)]], dtypes=MOST)
    for name, f in {"tril": torch.tril, "triu": torch.triu}.items():
        row(name, lambda x, k=0, f=f: f(x, k), [[(5, 4)], [(2, 4, 7)]], [{}, {"k": 2}, {"k": -1}, {"k": 99}], dtypes=("f32", "f16", "i32", "bool"))
        row(name, f, [[given([[NAN, NAN], [NAN, NAN]])]])
    row("diagonal", lambda x, k=0, axis0=0, axis1=1: x.diagonal(k, axis0, axis1), [[(5, 4)], [(4, 6, 5)]],
        [{}, {"k": 2}, {"k": -3}, {"k": 4}], dtypes=MOST)
    row("diagonal", lambda x, k=0, axis0=0, axis1=1: x.diagonal(k, axis0, axis1), [[(4, 6, 5)]],
        [{"k": 1, "axis0": 2, "axis1": 0}, {"k": -1, "axis0": -2, "axis1": -1}])
    row("diag_embed", lambda x, k=0, axis0=-2, axis1=-1: x.diag_embed(k, axis0, axis1), [[(4,)], [(3, 4)]],
        [{}, {"k": 2}, {"k": -1}, {"axis0": 0, "axis1": 1}], dtypes=MOST)
    row("diag_embed", lambda x, k=0, axis0=-2, axis1=-1: x.diag_embed(k, axis0, axis1), [[(3, 4)]], [{"k": -1, "axis0": 2, "axis1": 0}])
    row("diag", lambda x, k=0: x.diag(k), [[(4,)], [(4, 5)]], [{}, {"k": 1}, {"k": -2}], dtypes=MOST)
    row("matrix_trace", torch.trace, [[(4, 4)], [(3, 5)], [(5, 2)]], dtypes=MOST)
    row("pixel_shuffle", lambda x, factor: F.pixel_shuffle(x, factor), [[(2, 8, 3, 4)], [(4, 3, 5)]], [{"factor": 2}], dtypes=MOST)
    row("pixel_shuffle", lambda x, factor: F.pixel_shuffle(x, factor), [[(2, 1, 18, 2, 2)]], [{"factor": 3}])
    row("pixel_unshuffle", lambda x, factor: F.pixel_unshuffle(x, factor), [[(2, 2, 6, 4)], [(1, 4, 6)]], [{"factor": 2}], dtypes=MOST)
    row("channel_shuffle", lambda x, groups: torch.channel_shuffle(x, groups), [[(2, 6, 3, 4)], [(1, 12, 2)]], [{"groups": 2}, {"groups": 3}], dtypes=MOST)
    row("sliding_window", lambda x, axis, size, step=1: x.unfold(axis, size, step), [[(3, 9)], [(9, 8)]],
        [{"axis": 1, "size": 3}, {"axis": -1, "size": 2, "step": 2}, {"axis": 0, "size": 3, "step": 2}],
        dtypes=MOST)
    ways = [{"kernel": [2, 3]}, {"kernel": [3], "padding": [1], "stride": [2]}, {"kernel": [2], "dilation": [2, 1], "stride": [1, 2], "padding": [0, 1]}]
    row("unfold", windows(F.unfold), [[(2, 3, 5, 6)], [(2, 4, 7)]], ways, dtypes=FLOAT)
    for channels, count, way in ((6, 4 * 4, ways[0]), (9, 3 * 3, ways[1]), (8, 3 * 4, ways[2])):
        row("fold", windows(F.fold), [[(2, channels * (2 if way is ways[0] else 1), count)], [(channels, count)]],
            [{"size": [5, 6], **way}], dtypes=("f32", "f16"))
    row("index_select", lambda x, i, axis: x.index_select(axis, i.long()), [[(4, 6), whole((5,), 0, 4)]], [{"axis": 0}, {"axis": -1}], dtypes=MOST)
    row("take_along_axis", lambda x, i, axis: torch.take_along_dim(x, i.long(), axis),
        [[(5, 4), whole((3, 4), 0, 5)], [(5, 4), whole((2, 1), 0, 5)], [(5, 1), whole((3, 4), 0, 5)]], [{"axis": 0}],
        dtypes=MOST)
    distinct = given([[3, 0, 4], [1, 2, 0]], "i32")
    row("put_along_axis", lambda x, i, v, axis: x.scatter(axis, i.long().expand(2, 3), v.expand(2, 3)),
        [[(2, 5), distinct, (2, 3)], [(2, 5), distinct, ()], [(2, 5), given([[3, 0, 4]], "i32"), (1, 3)]],
        [{"axis": 1}], dtypes=MOST)
    row("scatter", last_wins, [[(2, 5), distinct, (3, 4)], [(3, 5, 1), given([[[3], [0]], [[1], [4]]], "i32"), (2, 2, 1)]], [{"axis": 1}], dtypes=MOST)
    row("scatter", last_wins, [[(6, 3), whole((9, 3), 0, 6), (9, 3)], [(40, 3), whole((60, 3), 0, 40), (60, 3)],
        [(40, 4), whole((60, 3), 0, 40, "i64"), (70, 3)]], [{"axis": 0}])
    row("scatter", last_wins, [[(3, 40), whole((2, 60), 0, 40), (2, 60)]], [{"axis": 1}])
    row("scatter", lambda x, i, axis, value: x.scatter(axis, i.long(), value), [[(6, 3), whole((4, 3), 0, 6)]], [{"axis": 0, "value": 3.0}], dtypes=MOST)
    row("index_put", put, [[(6, 4), (3, 4), given([4, 0, 3], "i32")], [(6, 4), (4,), given([[4, 0], [1, -1]], "i32")],
        [(6, 4, 2), (3, 2), given([4, 0, 3], "i32"), given([1, 3, -4], "i64")]], dtypes=MOST)
    row("index_put", lambda x, v, i: last_wins(x, i[:, None].expand(-1, x.shape[1]), v, 0), [[(50, 2), (70, 2), whole((70,), 0, 50)]])
    row("index_fill", lambda x, i, axis, value: x.index_fill(axis, i.long(), value), [[(4, 6), given([3, 0], "i32")]],
        [{"axis": 0, "value": 2.0}, {"axis": 1, "value": -1.0}], dtypes=MOST)
    row("index_fill", lambda x, i, axis, value: x.index_fill(axis, i.long(), value), [[flags(4, 6), given([3, 0], "i32")]], [{"axis": 0, "value": 1}])
    row("masked_fill", lambda x, mask, value: x.masked_fill(mask, value), [[(4, 6), flags(4, 6)], [(4, 6), flags(6)]], [{"value": 7.0}], dtypes=MOST)
    row("masked_fill", lambda x, mask, value: x.masked_fill(mask, value), [[(4, 6), flags(4, 1)]], [{"value": float("-1e30")}])
    row("masked_fill", lambda x, mask, value: x.masked_fill(mask, value), [[(4, 6), flags(4, 6), ()]], dtypes=("f32", "f16"))
    row("masked_select", torch.masked_select, [[(4, 6), flags(4, 6)], [(4, 6), flags(6)], [(6,), flags(4, 1)]], dtypes=MOST)
    row("nonzero", torch.nonzero, [[given([[0.0, 1.0, 0.0], [NAN, 0.0, 2.0]])], [flags(3, 2, 4)], [given([0, 0, 3], "i32")], [given([0, 0], "u8")]], grad=False)
    ascending = given(sorted([-1.5, -0.5, -0.5, 0.25, 1.0, 1.0, 1.75]))
    for right in (False, True):
        row("searchsorted", lambda s, v, right: torch.searchsorted(s, v, right=right),
            [[ascending, near(-2, 2, 3, 5)], [ascending, given([-0.5, 1.0, 1.75, 9.0, -9.0])],
            [given([[0.0, 1.0, 2.0], [-1.0, 0.0, 0.5]]), near(-2, 3, 2, 6)],
            [given([2 * i for i in range(100)], "i32"), whole((9,), -5, 205)],
            [given([i // 3 * 1.0 for i in range(65)]), near(-2, 25, 30)],
            [given([[i * 1.0 for i in range(70)], [i // 9 * 1.0 for i in range(70)]]),
            given([[0.0, 69.0, 5.0], [0.0, 7.0, 5.0]])]], [{"right": right}], grad=False)
        row("bucketize", lambda x, b, right: torch.bucketize(x, b, right=right), [[near(-2, 2, 4, 6), ascending]], [{"right": right}], grad=False)
    row("unique", once, [[whole((4, 6), 0, 9)], [given([2.5, 1.0, 2.5, -1.0, 1.0, 1.0])], [given([3.0])], [flags(9)], [whole((150,), 0, 90)]], grad=False)
    row("isin", torch.isin, [[whole((4, 6), 0, 9), whole((3,), 0, 9)], [given([0.5, NAN, 2.0]), given([2.0, NAN])],
        [whole((40,), 0, 200), whole((80,), 0, 200)]], grad=False)
