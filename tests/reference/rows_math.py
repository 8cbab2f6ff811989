"""Composed elementwise functions and activations, and the newer rows."""
import torch

from generate import flags, given, near, whole

F = torch.nn.functional
REAL = ("f32", "f16", "bf16")
NAN, INF = float("nan"), float("inf")


def halves(f):
    def run(x, axis=-1):
        if x.shape[axis] % 2:
            raise ValueError(f"axis {axis} of {tuple(x.shape)} has an odd length")
        a, b = x.chunk(2, axis)
        return f(a, b)
    return run


ROWS = {
    "exp2": (torch.exp2, -9, 9), "log2": (torch.log2, 0.01, 9), "log10": (torch.log10, 0.01, 9),
    "asin": (torch.asin, -0.95, 0.95), "acos": (torch.acos, -0.95, 0.95),
    "atan": (torch.atan, -9, 9), "sinh": (torch.sinh, -4, 4), "cosh": (torch.cosh, -4, 4), "asinh": (torch.asinh, -9, 9), "acosh": (torch.acosh, 1.1, 9),
    "atanh": (torch.atanh, -0.95, 0.95), "erfc": (torch.erfc, -3, 6), "erfinv": (torch.erfinv, -0.97, 0.97),
    "lgamma": (torch.lgamma, 0.1, 9), "digamma": (torch.digamma, 0.2, 9),
    "frac": (torch.frac, -4, 4), "deg2rad": (torch.deg2rad, -360, 360), "rad2deg": (torch.rad2deg, -4, 4), "sinc": (torch.sinc, -3, 3),
    "logsigmoid": (F.logsigmoid, -9, 9), "hardsigmoid": (F.hardsigmoid, -2.9, 2.9),
    "hardswish": (F.hardswish, -2.9, 2.9), "relu6": (F.relu6, -3, 9), "selu": (F.selu, -4, 4),
    "mish": (F.mish, -4, 4), "softsign": (F.softsign, -4, 4), "tanhshrink": (F.tanhshrink, -4, 4),
}
NEAR_POLES = [-0.03, 0.03, -1.03, -0.97, -2.04]
BESIDE_POLES = [-1e-4, -1e-6, -1e-7, -2e-8, -1e-9, 1e-4, 1e-7, 1e-9, -1.0001, -0.9999, -2.00025]  # no finite difference of theirs is a derivative
INTEGER = {"bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor}


def rows(row):
    for name, (f, low, high) in ROWS.items():
        row(name, f, [[near(low, high, 4, 33)], [near(low, high, 3, 1)]], dtypes=REAL)
    row("lgamma", torch.lgamma, [[near(-5.9, -0.1, 40)], [given([1.0, 2.0, 3.0, 0.5, 50.0, 1e6])], [given(NEAR_POLES)]])
    row("digamma", torch.digamma, [[near(-3.8, -0.2, 24)], [given(NEAR_POLES)]])
    for name in ("lgamma", "digamma"):
        row(name, getattr(torch, name), [[given(BESIDE_POLES)]], grad=False, derive=())
    row("hardsigmoid", F.hardsigmoid, [[near(-5, 5, 4, 33)]])
    row("hardswish", F.hardswish, [[near(-5, 5, 4, 33)]])
    row("trunc", torch.trunc, [[near(-4, 4, 4, 33)]], dtypes=REAL)
    row("isfinite", torch.isfinite, [[given([1.0, NAN, INF, -INF, 0.0])]], grad=False)
    row("hypot", torch.hypot, [[(4, 33), (33,)], [given([3.0, 1e30, 1e-30, 0.0]), given([4.0, 1e30, 1e-30, 2.0])]], dtypes=REAL)
    row("logaddexp", torch.logaddexp, [[near(-9, 9, 4, 33), near(-9, 9, 33)], [given([80.0, 1.0, -90.0]), given([80.0, 90.0, -95.0])]], dtypes=REAL)
    row("xlogy", torch.xlogy, [[(4, 33), near(0.1, 3, 33)], [given([0.0, 0.0, 2.0]), given([2.0, 0.5, 3.0])]], dtypes=REAL)
    row("copysign", torch.copysign, [[(4, 33), (33,)]], dtypes=REAL)
    row("remainder", torch.remainder, [[near(-9, 9, 4, 33), near(0.5, 3, 33)]])
    row("fmod", torch.fmod, [[near(-9, 9, 4, 33), near(0.5, 3, 33)], [near(-9, 9, 33), near(-3, -0.5, 33)], [whole((40,), -50, 50), whole((40,), 1, 9)]])
    row("floor_divide", torch.floor_divide,
        [[near(-9, 9, 4, 33), near(0.5, 3, 33)], [whole((40,), -50, 50), whole((40,), 1, 9)],
        [whole((40,), -50, 50), whole((40,), -9, 0)]], grad=False)
    row("lerp", torch.lerp, [[(4, 33), (4, 33), near(0, 1, 4, 33)]], dtypes=REAL)
    row("lerp", lambda a, b, weight: torch.lerp(a, b, weight), [[(4, 33), (33,)]], [{"weight": 0.3}])
    far, beside = [1e8, -1e20, 1e20, 1e8], [1.0, -0.5, 0.75, 3.0]
    row("lerp", torch.lerp, [[given([*far, INF, -INF]), given([*beside, 0.25, 2.0]), given([1.0, 1.0, 1.0, 0.0, 0.75, 0.75])]], grad=False, derive=())
    row("lerp", lambda a, b, weight: torch.lerp(a, b, weight), [[given(far), given(beside)]], [{"weight": w} for w in (0.0, 1.0)], grad=False, derive=())
    row("addcmul", lambda x, a, b, value=1: torch.addcmul(x, a, b, value=value), [[(4, 33), (33,), (4, 1)]], [{}, {"value": 0.5}], dtypes=REAL)
    row("addcdiv", lambda x, a, b, value=1: torch.addcdiv(x, a, b, value=value), [[(4, 33), (33,), near(0.5, 2, 4, 1)]], [{}, {"value": 0.5}], dtypes=("f32",))
    row("heaviside", torch.heaviside, [[given([-1.0, 0.0, 2.0]), given([0.5])]], grad=False)
    row("nan_to_num", lambda x, nan=0.0, infinity=None, minus_infinity=None: torch.nan_to_num(x, nan, 3.4028234663852886e38 if infinity is None else infinity,
        -3.4028234663852886e38 if minus_infinity is None else minus_infinity), [[given([1.0, NAN, INF, -INF, 0.5])]],
        [{}, {"nan": 2.0, "infinity": 9.0, "minus_infinity": -9.0}])
    row("isclose", lambda x, y, equal_nan=False: torch.isclose(x, y, equal_nan=equal_nan),
        [[given([1.0, 1.0, NAN, INF, INF, 0.0]), given([1.000001, 1.1, NAN, INF, -INF, 1e-9])]],
        [{}, {"equal_nan": True}], grad=False)
    row("logical_xor", torch.logical_xor, [[flags(4, 33), flags(33)]], grad=False)
    for name, f in INTEGER.items():
        row(name, f, [[whole((40,), -100, 100), whole((40,), -100, 100)], [whole((40,), 0, 100, "u8"), whole((40,), 0, 100, "u8")]], grad=False)
    row("bitwise_not", torch.bitwise_not, [[whole((40,), -100, 100)], [whole((40,), -100, 100, "i64")]], grad=False)
    row("bitwise_left_shift", torch.bitwise_left_shift, [[whole((40,), -100, 100), whole((40,), 0, 20)]], grad=False)
    row("bitwise_right_shift", torch.bitwise_right_shift, [[whole((40,), -10000, 10000), whole((40,), 0, 20)],
        [whole((40,), -10000, 10000, "i64"), whole((40,), 0, 60, "i64")]], grad=False)
    row("logit", lambda x, epsilon=None: torch.logit(x, epsilon), [[near(0.02, 0.98, 4, 33)]], [{}, {"epsilon": 0.101}], dtypes=("f32", "f16"))
    row("hardtanh", lambda x, low=-1.0, high=1.0: F.hardtanh(x, low, high), [[near(-3, 3, 4, 33)]], [{}, {"low": -0.51, "high": 2.03}], dtypes=("f32",))
    row("leaky_relu", lambda x, slope=0.01: F.leaky_relu(x, slope), [[(4, 33)]], [{}, {"slope": 0.2}], dtypes=REAL)
    row("elu", lambda x, alpha=1.0: F.elu(x, alpha), [[(4, 33)]], [{}, {"alpha": 0.7}], dtypes=REAL)
    row("celu", lambda x, alpha=1.0: F.celu(x, alpha), [[(4, 33)]], [{}, {"alpha": 0.7}], dtypes=REAL)
    row("prelu", F.prelu, [[(4, 5, 3), near(0.1, 0.5, 5)], [(4, 5), near(0.1, 0.5, 1)]], dtypes=REAL)
    row("softshrink", lambda x, **how: F.softshrink(x, how.get("lambda", 0.5)), [[(4, 33)]], [{}, {"lambda": 1.01}], dtypes=REAL)
    row("hardshrink", lambda x, **how: F.hardshrink(x, how.get("lambda", 0.5)), [[(4, 33)]], [{}, {"lambda": 1.01}], dtypes=REAL)
    row("threshold", lambda x, threshold, value: F.threshold(x, threshold, value), [[(4, 33)]], [{"threshold": 0.3, "value": -1.0}], dtypes=REAL)
    for name, f in {"glu": lambda a, b: a * torch.sigmoid(b), "geglu": lambda a, b: a * F.gelu(b), "swiglu": lambda a,
            b: F.silu(a) * b, "reglu": lambda a, b: torch.relu(a) * b}.items():
        row(name, halves(f), [[(4, 6, 10)]], [{}, {"axis": 1}], dtypes=REAL)
