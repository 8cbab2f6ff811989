"""Makes torch_values.json: what PyTorch answers, in double precision, to the calls of torch_values_test.cpp.

Run with any PyTorch: python3 torch_values.py > torch_values.json
"""
import json
import math

import torch
import torch.nn.functional as F

torch.manual_seed(3)
D = torch.float64


def number(v):
    if isinstance(v, bool):
        return int(v)
    if isinstance(v, float) and not math.isfinite(v):
        return "nan" if v != v else "inf" if v > 0 else "-inf"
    return v


def dump(t):
    kind = {torch.float64: "f64", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8",
            torch.float32: "f32"}[t.dtype]
    return {"shape": list(t.shape), "dtype": kind, "data": [number(v) for v in t.reshape(-1).tolist()]}


rows = []


def add(name, inputs, result):
    rows.append({"name": name, "inputs": [dump(t) for t in inputs], "expected": dump(result)})


inf, nan = math.inf, math.nan
x = torch.tensor([-inf, -30.0, -5.5, -2.5, -1.5, -1.0, -0.5, -1e-9, 0.0, 1e-9, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 7.75, 30.0, inf, nan], dtype=D)
unary = {
    "neg": torch.neg, "abs": torch.abs, "square": torch.square, "reciprocal": torch.reciprocal, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
    "tanh": torch.tanh, "erf": torch.erf, "sigmoid": torch.sigmoid, "relu": torch.relu, "gelu": F.gelu,
    "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "silu": F.silu, "floor": torch.floor, "ceil": torch.ceil,
    "round": torch.round, "isnan": torch.isnan, "isinf": torch.isinf,
}
for name, f in unary.items():
    add(name, [x], f(x))
add("sign", [x[:-1]], torch.sign(x[:-1]))  # PyTorch's sign(nan) is 0; ours, like NumPy's, is nan
add("softplus", [x], F.softplus(x, threshold=1e9))
bits = torch.tensor([True, False])
add("logical_not", [bits], torch.logical_not(bits))

a = torch.tensor([-7.0, -7.0, 7.0, 7.0, 0.0, 1.5, -1.5, 0.3, inf, nan, 2.0, -2.0, 0.0], dtype=D)
b = torch.tensor([3.0, -3.0, 3.0, -3.0, 2.0, 0.5, 0.4, 0.0, 2.0, 1.0, nan, 3.0, -1.0], dtype=D)
binary = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "minimum": torch.minimum,
    "maximum": torch.maximum, "mod": torch.remainder, "atan2": torch.atan2, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le,
    "gt": torch.gt, "ge": torch.ge,
}
for name, f in binary.items():
    add(name, [a, b], f(a, b))
p, q = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
add("logical_and", [p, q], p & q)
add("logical_or", [p, q], p | q)
i = torch.tensor([-7, -7, 7, 7, 2147483647, -2147483648, 5], dtype=torch.int32)
j = torch.tensor([3, -3, 3, -3, 2, -1, 5], dtype=torch.int32)
for name in ["add", "sub", "mul", "minimum", "maximum", "mod", "eq", "lt"]:
    add(name, [i, j], binary[name](i, j))
u = torch.tensor([200, 7, 255], dtype=torch.uint8)
v = torch.tensor([100, 9, 255], dtype=torch.uint8)
for name in ["add", "sub", "mul"]:
    add(name, [u, v], binary[name](u, v))
add("div", [i, j], torch.div(i, j))

m = torch.randn(3, 4, 5, dtype=D)
for name, f in {"sum": torch.sum, "mean": torch.mean}.items():
    add(f"{name} (0, 2)", [m], f(m, dim=(0, 2)))
    add(f"{name} all", [m], f(m))
    add(f"{name} 1 keepdim", [m], f(m, dim=1, keepdim=True))
add("max (0, 2)", [m], torch.amax(m, dim=(0, 2)))
add("min 1", [m], torch.amin(m, dim=1))
add("prod 1", [m], torch.prod(m, dim=1))
add("argmax 1", [m], torch.argmax(m, dim=1))
add("argmin all", [m], torch.argmin(m))
add("var (0, 2)", [m], torch.var(m, dim=(0, 2)))
add("var 1 correction 0", [m], torch.var(m, dim=1, correction=0))
add("logsumexp (0, 2)", [m], torch.logsumexp(m, dim=(0, 2)))
w = torch.tensor([[-inf, -inf], [inf, 1.0], [nan, 1.0], [1000.0, 1001.0]], dtype=D)
add("logsumexp 1", [w], torch.logsumexp(w, dim=1))
add("max 1", [w], torch.amax(w, dim=1))
add("argmax 1 of nan", [torch.tensor([[1.0, nan, nan], [2.0, 2.0, 1.0]], dtype=D)], torch.tensor([1, 0]))
add("softmax 1", [w], torch.softmax(w, 1))
add("log_softmax 1", [w], torch.log_softmax(w, 1))
add("softmax 0", [m], torch.softmax(m, 0))
add("log_softmax 1", [m], torch.log_softmax(m, 1))

s = torch.arange(60, dtype=D).reshape(3, 4, 5)
add("permute 2 0 1", [s], s.permute(2, 0, 1))
add("transpose", [s], s.transpose(-2, -1))
add("flip 0 2", [s], torch.flip(s, [0, 2]))
add("slice", [s], s[1:, ::2, 1:-1])
add("pad", [s], F.pad(s, (3, 1, 0, 2, 1, 0), value=-1.0))
add("concat 1", [s, s[:, :2]], torch.cat([s, s[:, :2]], 1))
k = torch.tensor([[2, 0], [1, 1]])
add("take 1", [s, k], s[:, k])
g = torch.randint(0, 4, (2, 7, 5))
add("gather 1", [s, g], torch.gather(s, 1, g))
c = torch.randn(3, 6, 5, dtype=D)
h = torch.randint(0, 4, (2, 6, 5))
add("scatter_add 1", [s, h, c], s.clone().scatter_add(1, h, c))
r = torch.tensor([0, 2, 2, 1, 0])
z = torch.randn(5, 4, 5, dtype=D)
add("index_add", [s, r, z], s.clone().index_add(0, r, z))
add("one_hot", [k], F.one_hot(k, 4).to(D))
A, B = torch.randn(2, 1, 3, 4, dtype=D), torch.randn(5, 4, 6, dtype=D)
add("matmul", [A, B], A @ B)
add("matmul", [B[0, :, 0], B], B[0, :, 0] @ B)
add("matmul", [A, B[0, :, 0]], A @ B[0, :, 0])
add("matmul", [B[0, 0], B[1, 0]], B[0, 0] @ B[1, 0])

logits, target = torch.randn(6, 5, dtype=D) * 3, torch.tensor([0, 4, 2, 2, 1, 3])
t = torch.randn(6, 5, dtype=D)
soft = torch.softmax(t, 1)
soft[0, 0] = 0
for red in ["mean", "sum", "none"]:
    add(f"cross_entropy {red}", [logits, target], F.cross_entropy(logits, target, reduction=red))
    add(f"nll_loss {red}", [logits, target], F.nll_loss(logits, target, reduction=red))
    add(f"mse_loss {red}", [logits, t], F.mse_loss(logits, t, reduction=red))
    add(f"l1_loss {red}", [logits, t], F.l1_loss(logits, t, reduction=red))
    add(f"bce_with_logits {red}", [logits * 30, soft], F.binary_cross_entropy_with_logits(logits * 30, soft, reduction=red))
    add(f"huber_loss {red}", [logits, t], F.huber_loss(logits, t, delta=0.7, reduction=red))
    add(f"kl_div {red}", [logits, soft], F.kl_div(logits, soft, reduction=red))
add("where", [t > 0, t, logits], torch.where(t > 0, t, logits))
add("clamp", [x], torch.clamp(x, -1.0, 2.0))
add("arange", [], torch.arange(-2, 3, 0.75, dtype=D))
add("linspace", [], torch.linspace(-1, 2, 9, dtype=D))
add("eye", [], torch.eye(3, 4, dtype=D))

print(json.dumps({"torch": torch.__version__, "rows": rows}).replace('{"name"', '\n{"name"'))
