"""Constants, casts and normalisations. A case without inputs of its own has one empty input, which names the device."""
import torch

from generate import FLOATS, WHOLE, Input, near, whole

F = torch.nn.functional
REAL = ("f32", "f16", "bf16")
HERE = Input((0,), grad=False)


def typed(f):
    """The dtype by its name; the stored result is in double or int64."""
    def run(here, dtype="f32", **args):
        return f(**args).to(torch.bool if dtype == "bool" else torch.float64 if dtype in FLOATS else torch.int64)
    return run


def cast(x, dtype):
    if dtype == "bool":
        return x != 0
    narrow = x.to(getattr(torch, {**FLOATS, **WHOLE}[dtype]))
    return narrow.double() if dtype in FLOATS else narrow.long()


def rows(row):
    types = [{"dtype": t} for t in ("f32", "f16", "i32", "i64", "u8", "bool")]
    for name, f in {"zeros": torch.zeros, "ones": torch.ones}.items():
        row(name, typed(lambda shape, f=f: f(shape)), [[HERE]],
            [{"shape": [2, 3]}, {"shape": []}, {"shape": [0, 4]}] + [{"shape": [3], **t} for t in types[1:]], out="any")
    row("full", typed(lambda shape, value: torch.full(shape, value)), [[HERE]],
        [{"shape": [2, 3], "value": 1.5}, {"shape": [4], "value": 3.0, "dtype": "i32"}], out="any")
    row("arange", typed(lambda start, stop, step=1: torch.arange(start, stop, step)), [[HERE]],
        [{"start": 0.0, "stop": 7.0}, {"start": 2.5, "stop": -3.0, "step": -0.5},
        {"start": -4.0, "stop": 9.0, "step": 3.0, "dtype": "i32"}, {"start": 3.0, "stop": 3.0}], out="any")
    row("linspace", typed(lambda start, stop, count: torch.linspace(start, stop, count, dtype=torch.float64)), [[HERE]],
        [{"start": -1.0, "stop": 2.0, "count": 7}, {"start": 3.0, "stop": 3.5, "count": 1}, {"start": 3.0, "stop": 3.5, "count": 0}])
    row("full_like", lambda x, value: torch.full_like(x, value), [[(2, 3)]], [{"value": 2.5}, {"value": 1.0}], grad=False)
    row("zeros_like", torch.zeros_like, [[(2, 3)], [whole((4,))]], grad=False)
    row("ones_like", torch.ones_like, [[(2, 3)], [whole((4,))]], grad=False)
    row("stop_gradient", lambda x: x.detach(), [[(2, 3)], [whole((4,))]], grad=False)
    row("cast", cast, [[near(-100, 100, 33)]], [{"dtype": t} for t in ("f16", "f32", "bf16", "i32", "i64", "i8", "bool")], out="any")
    row("cast", cast, [[whole((33,), -300, 300)]], [{"dtype": t} for t in ("f32", "i8", "u8", "i64", "bool")], out="any")
    row("layer_norm", lambda x, w=None, b=None, shape=(), eps=1e-5: F.layer_norm(x, shape, w, b, eps),
        [[(4, 9), (9,), (9,)]], [{"shape": [9]}, {"shape": [9], "eps": 0.1}], dtypes=REAL)
    row("layer_norm", lambda x, shape=(): F.layer_norm(x, shape), [[(2, 3, 5)]], [{"shape": [3, 5]}, {"shape": [5]}])
    row("rms_norm", lambda x, w=None, eps=1e-6: F.rms_norm(x, x.shape[-1:], w, eps), [[(4, 9), (9,)], [(2, 3, 5)]], [{}, {"eps": 0.1}], dtypes=REAL)
    row("group_norm", lambda x, w=None, b=None, groups=1: F.group_norm(x, groups, w, b),
        [[(2, 6, 5), (6,), (6,)], [(3, 6, 2, 3)]], [{"groups": 2}, {"groups": 3}], dtypes=REAL)
    row("instance_norm", lambda x, w=None, b=None: F.instance_norm(x, weight=w, bias=b), [[(2, 3, 7), (3,), (3,)], [(2, 3, 4, 5)]], dtypes=REAL)
    row("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [[(6, 3), (3,), (3,)], [(2, 3, 4, 5), (3,), (3,)]], dtypes=REAL)
    row("batch_norm", lambda x, w, b, m, v, training: F.batch_norm(x, m, v, w, b, False),
        [[(6, 3), (3,), (3,), Input((3,), grad=False), Input((3,), 0.5, 2, grad=False)]], [{"training": False}])
