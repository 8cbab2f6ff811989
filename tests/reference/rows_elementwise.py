"""Functions of one element of each input."""
import torch

from generate import near, whole, flags

F = torch.nn.functional
REAL = ("f32", "f16", "bf16")
# name: (PyTorch's function, low, high); drawn away from kinks where the gradient has two answers
SMOOTH = {
    "neg": (torch.neg, -4, 4), "abs": (torch.abs, -4, 4), "square": (torch.square, -4, 4),
    "reciprocal": (torch.reciprocal, 0.25, 4), "sqrt": (torch.sqrt, 0.01, 9),
    "rsqrt": (torch.rsqrt, 0.05, 9), "exp": (torch.exp, -5, 5), "expm1": (torch.expm1, -1, 1), "log": (torch.log, 0.01, 9), "log1p": (torch.log1p, -0.9, 3),
    "sin": (torch.sin, -9, 9), "cos": (torch.cos, -9, 9), "tan": (torch.tan, -1.4, 1.4), "tanh": (torch.tanh, -4, 4), "erf": (torch.erf, -3, 3),
    "sigmoid": (torch.sigmoid, -9, 9), "relu": (torch.relu, -4, 4), "gelu": (F.gelu, -4, 4), "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), -4, 4),
    "silu": (F.silu, -6, 6), "softplus": (F.softplus, -9, 9),
}
FLAT = {"sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "isnan": torch.isnan, "isinf": torch.isinf}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "minimum": torch.minimum, "maximum": torch.maximum}
COMPARE = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}


def rows(row):
    for name, (f, low, high) in SMOOTH.items():
        row(name, f, [[near(low, high, 4, 33)], [near(low, high, 1)], [near(low, high, 3, 1, 5)]], dtypes=REAL)
    for name, f in FLAT.items():
        row(name, f, [[near(-4, 4, 4, 33)]], dtypes=REAL, grad=False)
    for name, f in BINARY.items():
        row(name, f, [[(4, 33), (4, 33)], [(4, 33), (33,)], [(3, 1, 5), (2, 1)], [(), (7,)]], dtypes=REAL + ("i32",))
    row("div", torch.div, [[(4, 33), near(0.5, 3, 4, 33)], [(4, 1), near(-3, -0.5, 33)]], dtypes=REAL)
    row("pow", torch.pow, [[near(0.1, 3, 4, 33), (4, 33)], [near(0.1, 3, 4, 1), (33,)]], dtypes=REAL)
    row("mod", torch.remainder, [[near(-9, 9, 4, 33), near(0.5, 3, 4, 33)], [near(-9, 9, 4, 33), near(-3, -0.5, 33)]], dtypes=("f32",))
    row("atan2", torch.atan2, [[(4, 33), near(0.2, 3, 4, 33)], [near(0.2, 3, 33), near(-3, 3, 4, 33)]], dtypes=REAL)
    for name, f in COMPARE.items():
        row(name, f, [[(4, 33), (4, 33)], [whole((4, 33), -2, 3), whole((33,), -2, 3)]], dtypes=("f32", "f16"), grad=False)
    row("logical_and", torch.logical_and, [[flags(4, 33), flags(33)], [whole((9,), -1, 2), flags(9)]], grad=False)
    row("logical_or", torch.logical_or, [[flags(4, 33), flags(33)]], grad=False)
    row("logical_not", torch.logical_not, [[flags(4, 33)], [whole((9,), -1, 2)]], grad=False)
    row("where", torch.where, [[flags(4, 33), (4, 33), (4, 33)], [flags(4, 1), (33,), ()]], dtypes=REAL)
    # PyTorch 2.15 gives a value at the bound no gradient, Heddle (and PyTorch before) all of it: the bounds are no values of an input
    row("clamp", lambda x, low=None, high=None: torch.clamp(x, low, high), [[(4, 33)]],
        [{"low": -0.77, "high": 1.23}, {"low": 0.51}, {"high": -0.27}], dtypes=REAL)
