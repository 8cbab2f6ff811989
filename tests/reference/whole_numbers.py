#!/usr/bin/env python3
"""Makes tests/reference/whole_numbers.json: what NumPy answers for integers and bool, and which dtypes PyTorch promotes to.

  python3 tests/reference/whole_numbers.py > tests/reference/whole_numbers.json

Needs NumPy and PyTorch; the tests do not. "promotions" holds torch.result_type of every pair of dtypes, and of a dtype with the Python numbers True, 2 and 0.5;
"cases" holds {op, in: [[dtype, values], ...], out: [dtype, values]} with NumPy's dtype and values.
"""
import json
import sys
import warnings

import numpy as np
import torch

warnings.simplefilter("ignore")
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i8": torch.int8,
    "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64,
         "bool": torch.bool}
NAMES = {v: k for k, v in TORCH.items()} | {torch.int16: "i16"}
NUMPY = {"i8": np.int8, "u8": np.uint8, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
DTYPE = {np.dtype(v): k for k, v in NUMPY.items()} | {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64",
    np.dtype(np.int16): "i16", np.dtype(np.float16): "f16", np.dtype(np.uint64): "u64"}

promotions = [[a, b, NAMES[torch.promote_types(TORCH[a], TORCH[b])]] for a in TORCH for b in TORCH]
numbers = [[a, label, NAMES[torch.result_type(torch.zeros(2, dtype=TORCH[a]), n)]] for a in TORCH for label, n in (("true", True), ("2", 2), ("0.5", 0.5))]

cases = []


def case(op, f, *inputs):
    arrays = [np.array(v, NUMPY[t]) for t, v in inputs]
    out = np.asarray(f(*arrays))
    cases.append({"op": op, "in": [[t, [int(x) for x in a]] for (t, _), a in zip(inputs, arrays)],
        "out": [DTYPE[out.dtype], [float(x) if out.dtype.kind == "f" else int(x) for x in out.reshape(-1)]]})


EDGES = {"i8": [-128, -127, -7, -1, 0, 1, 6, 127], "u8": [0, 1, 2, 7, 100, 128, 254, 255], "i32": [-2**31, -2**31 + 1, -65537, -1, 0, 1, 46341, 2**31 - 1],
         "i64": [-2**63, -2**40, -3, -1, 0, 1, 3037000500, 2**63 - 1]}
OTHERS = {"i8": [-1, 3, 2, -128, 5, 127, -4, 127], "u8": [255, 3, 7, 2, 200, 2, 3, 1],
    "i32": [-1, 2, -65537, -2**31, 7, 2**31 - 1, 46341, 1], "i64": [-1, 2**40, 2, -2**63, 7, 3, 3037000500, 1]}
DIVISORS = {"i8": [3, -1, -2, 5, 7, -128, -4, 2], "u8": [3, 1, 2, 2, 7, 5, 255, 16],
    "i32": [3, -1, -2, 5, 7, -2**31, -4, 2], "i64": [3, -1, -2, 5, 7, -2**63, -4, 2]}
BITS = [[False, False, True, True], [False, True, False, True]]

for t in EDGES:
    x, y, d = (t, EDGES[t]), (t, OTHERS[t]), (t, DIVISORS[t])
    for op, f in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
        "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
                  "bitwise_xor": np.bitwise_xor, "eq": np.equal, "lt": np.less, "ge": np.greater_equal}.items():
        case(op, f, x, y)
    for op, f in {"mod": np.mod, "remainder": np.remainder, "fmod": np.fmod, "floor_divide": np.floor_divide}.items():
        case(op, f, x if op != "fmod" or t == "u8" else (t, [v + (v < -100) for v in EDGES[t]]), d)
        case(op, f, (t, [7, 5, 1]), (t, [0, 0, 0]))  # by zero: 0
    for op, f in {"abs": np.abs, "sign": np.sign, "square": np.square, "bitwise_not": np.invert, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}.items():
        case(op, f, x)
    if t != "u8":
        case("neg", np.negative, x)
    case("bitwise_left_shift", np.left_shift, x, (t, [0, 1, 2, 3, 4, 5, 6, 7]))
    case("bitwise_right_shift", np.right_shift, x, (t, [0, 1, 2, 3, 4, 5, 6, 7]))
    case("pow", np.power, (t, [2, 3, 0, 1, 5, 7, 2, 11]), (t, [3, 2, 0, 9, 3, 1, 6, 2]))
    case("pow", np.power, (t, [v for v in EDGES[t]]), (t, [0, 1, 2, 3, 4, 5, 6, 64]))
    for op, f in {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all, "argmax": np.argmax, "argmin": np.argmin}.items():
        case(op, f, (t, EDGES[t][2:6]))
    case("mean", lambda a: np.float32(np.mean(a)), (t, [1, 2, 3, 5]))
    case("cumsum", lambda a: np.cumsum(a, dtype=np.int64), (t, EDGES[t][1:5]))
    case("div", lambda a, b: np.divide(a, b).astype(np.float32), (t, [1, 2, 7, 5]), (t, [2, 4, 2, 3]))
for a, b in (("i8", "i32"), ("u8", "i32"), ("i32", "i64"), ("u8", "i64"), ("bool", "i8"), ("bool", "i64"), ("i8", "i64")):
    left, right = [[0, 1, 1, 0] if t == "bool" else [0, 3, 100, 7] if t == "u8" else [-5, 3, 100, -1] for t in (a, b)]
    for op, f in {"add": np.add, "mul": np.multiply, "lt": np.less, "eq": np.equal, "maximum": np.maximum}.items():
        case(op, f, (a, left), (b, right))
x, y = ("bool", BITS[0]), ("bool", BITS[1])
for op, f in {"add": np.add, "mul": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
              "eq": np.equal, "ne": np.not_equal, "lt": np.less, "ge": np.greater_equal, "logical_and": np.logical_and,
              "logical_or": np.logical_or, "logical_xor": np.logical_xor}.items():
    case(op, f, x, y)
for op, f in {"abs": np.abs, "bitwise_not": np.invert, "logical_not": np.logical_not}.items():
    case(op, f, x)
for op, f in {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all, "argmax": np.argmax}.items():
    case(op, f, x)
case("mean", lambda a: np.float32(np.mean(a)), x)
case("div", lambda a, b: np.divide(a, b).astype(np.float32), x, ("bool", [True] * 4))
case("cumsum", np.cumsum, x)

json.dump({"promotions": promotions, "numbers": numbers, "cases": cases}, sys.stdout, separators=(",", ":"))
print()
