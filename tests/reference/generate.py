#!/usr/bin/env python3
"""Makes tests/reference/values/*.safetensors: what PyTorch answers for Heddle's functions and their gradients.

  python3 tests/reference/generate.py            all families
  python3 tests/reference/generate.py reduce     some of them
  python3 tests/reference/generate.py --check    exit code 1 when a stored file is not what would be made now

Needs PyTorch from PyPI; the tests do not. A family is a module rows_FAMILY.py whose rows are calls of `row`. Each row
names a public function of Heddle, says how PyTorch computes it, and lists inputs and arguments (Heddle's names for
them; the C++ side reads them in functions_FAMILY.cpp). Inputs are drawn by NumPy's Philox from the row's name and the
case's number, rounded to their dtype, and everything is computed in double precision (integers in int64): the values
are an oracle, not another implementation's rounding. A gradient is that of sum(output * cotangent) with random
cotangents, over all floating outputs. A file holds for case i the tensors "i.in.k", "i.out.k", "i.cot.k" and "i.grad.k"
(floating ones as f32, whole ones as i32), and under the metadata "cases" a list of {op, args, in: dtypes, out: dtypes,
grad: numbers of the inputs that have one}.

From the first case of each row more are made by themselves (NAME_derived.safetensors, with a "kind"): each axis of the
first input empty, NaN or infinities among the values, and zeros, ones and large numbers of both signs, where formulas
have corners and overflow. What PyTorch refuses is left out.
"""
import argparse
import hashlib
import importlib
import json
import pathlib
import struct
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
FLOATS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
WHOLE = {"i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "bool": "bool"}
KINDS = ("empty", "nan", "infinite", "extreme")
LIMIT = 20 * 2**20  # bytes of all files


class Input:
    """How one input is drawn: uniform in [low, high), whole numbers for integers; `values` are given ones. With grad=False it takes no gradient."""

    def __init__(self, shape, low=-2.0, high=2.0, dtype=None, grad=True, values=None, distinct=False, symmetric=False):
        self.shape, self.low, self.high, self.dtype, self.grad = shape, low, high, dtype, grad
        self.values, self.distinct, self.symmetric = values, distinct, symmetric

    def draw(self, rng, dtype):
        """A double or int64 array; the values can be stored in `dtype`."""
        if self.values is not None:
            return np.array(self.values, np.float64 if dtype in FLOATS else np.int64).reshape(self.shape)
        count = int(np.prod(self.shape))
        if dtype == "bool":
            return rng.integers(0, 2, self.shape)
        if dtype in WHOLE:
            low, high = (int(self.low), int(self.high)) if (self.low, self.high) != (-2.0, 2.0) else (-9, 10)
            return rng.integers(max(low, 0) if dtype == "u8" else low, high, self.shape)
        if self.distinct:  # no ties, far enough apart for every float type: sorting and maxima have one answer
            return ((rng.permutation(count) + 0.5) / max(count, 1) * (self.high - self.low) + self.low).reshape(self.shape)
        return rng.uniform(self.low, self.high, self.shape)


    def without(self, axis, size):
        """The same with an axis of size 0, where it has that axis with that size."""
        if len(self.shape) <= axis or self.shape[axis] != size:
            return self
        shape = tuple(0 if k == axis else n for k, n in enumerate(self.shape))
        return Input(shape, self.low, self.high, self.dtype, self.grad,
            None if self.values is None else np.array(self.values).reshape(self.shape).take([], axis))

    def with_values(self, kind, dtype):
        """The same with some elements of a floating input replaced."""
        if dtype not in FLOATS or not self.grad or not self.shape and kind != "extreme":
            return self  # what takes no gradient may be labels
        values = self.draw(np.random.Generator(np.random.Philox(7)), dtype).copy().reshape(-1)
        places = {"nan": [(0.4, np.nan)], "infinite": [(0.1, np.inf), (0.8, -np.inf)],
                  "extreme": [(k / len(EXTREMES), v) for k, v in enumerate(EXTREMES)]}[kind]
        for at, value in places:
            if values.size:
                values[int(at * values.size)] = value
        return Input(self.shape, grad=self.grad, dtype=self.dtype, values=values.reshape(self.shape))


# Where functions have corners, and where careless formulas overflow.
EXTREMES = [0.0, 1.0, -1.0, 0.5, -0.5, 1e-4, -1e-4, 30.0, -30.0, 120.0, -120.0, 1000.0, -1000.0, 2.0, -2.0, 3.0, -3.0]
CRASHES = {"grid_sample"}  # PyTorch itself does with NaN coordinates


def axes_of(inputs):
    """(axis, size) of the axes of the first input that has any: each is emptied in all inputs that have it."""
    shape = next((i.shape for i in inputs if len(i.shape)), ())
    return [(axis, size) for axis, size in enumerate(shape) if size]


def whole(shape, low=-9, high=10, dtype="i32", **how):
    return Input(shape, low, high, dtype, grad=False, **how)


def flags(*shape):
    return Input(tuple(shape), dtype="bool", grad=False)


def near(low, high, *shape, **how):
    return Input(tuple(shape), low, high, **how)


def given(values, dtype=None, **how):
    array = np.array(values)
    return Input(array.shape, values=values, dtype=dtype, grad=dtype is None or dtype in FLOATS, **how)


class Family:
    def __init__(self, name):
        self.name, self.cases, self.tensors = name, [], {}
        self.derived = None  # the family of the cases made from these by themselves

    def row(self, op, compute, inputs, args=({},), dtypes=("f32",), grad=True, pairs=False, out=None, derive=KINDS):
        """Cases of one function: each list of inputs with each dict of args (with pairs=True the n-th with the n-th), for each dtype (that of the inputs which
        name none; dtypes after the first take the first list of inputs and args). compute(*tensors, **args) gives a tensor or a list. An input that is a plain
        tuple is a shape. `out` is the dtype of results where it is not that of the floating inputs ("any": not compared). `derive`: the kinds of
        cases that are made from the first one by themselves."""
        lists = [[i if isinstance(i, Input) else Input(i) for i in (l if isinstance(l, list) else [l])] for l in inputs]
        args = list(args)
        combined = list(zip(lists, args)) if pairs else [(l, a) for l in lists for a in args]
        for n, dtype in enumerate(dtypes):
            for m, (some, arg) in enumerate(combined if n == 0 else combined[:1]):
                self.case(op, compute, some, arg, dtype, grad, out, f"{op}/{dtype}/{m}")
        if self.derived is not None:
            self.derived.derive(op, compute, *combined[0], dtypes[0], grad, out, derive)

    def derive(self, op, compute, inputs, args, dtype, grad, out, kinds):
        """What the first case of a row gives with an empty axis, with NaN and infinities among its values, and with
        zeros and large numbers, as far as PyTorch takes it."""
        variants = [("empty", [i.without(axis, size) for i in inputs]) for axis, size in axes_of(inputs)]
        variants += [(kind, [i.with_values(kind, i.dtype or dtype) for i in inputs]) for kind in ("nan", "infinite", "extreme")]
        for n, (kind, some) in enumerate(variants):
            if kind not in kinds:
                continue
            if kind != "empty" and (op in CRASHES or not any(i.grad and (i.dtype or dtype) in FLOATS for i in some)
                    or 0 in (i.values.size for i in some if hasattr(i.values, "size"))):
                continue
            before = set(self.tensors)
            try:
                self.case(op, compute, some, args, dtype, grad, out, f"{op}/{dtype}/{kind}/{n}", kind)
            except Exception:  # PyTorch has no answer either
                self.tensors = {name: t for name, t in self.tensors.items() if name in before}

    def case(self, op, compute, inputs, args, dtype, grad, out, seed, kind=""):
        import torch
        rng = np.random.Generator(np.random.Philox(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")))
        types = [i.dtype or dtype for i in inputs]
        leaves = [self.leaf(torch, i, t, rng) for i, t in zip(inputs, types)]
        wants = [k for k, (i, t) in enumerate(zip(inputs, types)) if grad and i.grad and t in FLOATS]
        for k in wants:
            leaves[k].requires_grad_()
        outputs = as_list(compute(*leaves, **args))
        number = len(self.cases)
        for k, leaf in enumerate(leaves):
            self.keep(f"{number}.in.{k}", leaf)
        for k, output in enumerate(outputs):
            self.keep(f"{number}.out.{k}", output)
        smooth = [k for k, o in enumerate(outputs) if o.is_floating_point() and o.requires_grad]
        if smooth:
            cotangents = [torch.from_numpy(rng.uniform(-1, 1,
                tuple(outputs[k].shape)).astype(np.float32).astype(np.float64)).reshape(outputs[k].shape)
                for k in smooth]
            gradients = torch.autograd.grad([outputs[k] for k in smooth], [leaves[k] for k in wants], cotangents, allow_unused=True)
            for k, cotangent in zip(smooth, cotangents):
                self.keep(f"{number}.cot.{k}", cotangent)
            wants = [k for k, g in zip(wants, gradients) if g is not None]
            for k, gradient in zip(wants, [g for g in gradients if g is not None]):
                self.keep(f"{number}.grad.{k}", gradient)
        entry = {"op": op, "args": args, "in": types, "out": [out or self.dtype_of(o, types) for o in outputs], "grad": wants if smooth else []}
        self.cases.append({**entry, "kind": kind} if kind else entry)

    @staticmethod
    def leaf(torch, spec, dtype, rng):
        array = spec.draw(rng, dtype)
        if spec.symmetric:
            array = (array + np.swapaxes(array, -1, -2)) / 2
        if dtype == "bool":
            return torch.from_numpy(array.astype(bool)).reshape(spec.shape)
        if dtype in WHOLE:
            return torch.from_numpy(array.astype(np.int64)).reshape(spec.shape)
        stored = "f32" if dtype == "f64" else dtype  # what the file can hold
        return torch.from_numpy(array.astype(np.float64)).reshape(spec.shape).to(getattr(torch, FLOATS[stored])).double()

    @staticmethod
    def dtype_of(output, types):
        """Heddle's dtype of a result: that of the floating inputs; whole numbers are not compared ("any")."""
        if str(output.dtype) == "torch.bool":
            return "bool"
        if output.is_floating_point():
            floats = {t for t in types if t in FLOATS}
            return floats.pop() if len(floats) == 1 else "f32" if not floats or "f64" not in floats else "f64"
        return "any"

    def keep(self, name, tensor):
        array = tensor.detach().cpu().numpy()
        self.tensors[name] = np.ascontiguousarray(array.astype(np.float32) if array.dtype.kind == "f" else array.astype(np.int32)).reshape(array.shape)

    def bytes(self):
        header, data, at = {"__metadata__": {"cases": json.dumps(self.cases, separators=(",", ":"))}}, [], 0
        for name, array in self.tensors.items():
            raw = array.tobytes()
            header[name] = {"dtype": "F32" if array.dtype == np.float32 else "I32", "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
            data.append(raw)
            at += len(raw)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + b"".join(data)


def as_list(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def make(name):
    sys.path.insert(0, str(HERE))
    family = Family(name)
    family.derived = Family(f"{name}_derived")
    importlib.import_module(f"rows_{name}").rows(family.row)
    return family


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    options = parser.parse_args()
    known = sorted(path.stem.removeprefix("rows_") for path in HERE.glob("rows_*.py"))
    unknown = set(options.families) - set(known)
    if unknown:
        sys.exit(f"generate: unknown family {sorted(unknown)[0]}; known: {', '.join(known)}")
    sys.modules["generate"] = sys.modules["__main__"]
    total = stale = 0
    for name in options.families or known:
        both = make(name)
        for family in (both, both.derived):
            path, content = HERE / "values" / f"{family.name}.safetensors", family.bytes()
            total += len(content)
            if options.check:
                stale += not path.exists() or path.read_bytes() != content
            else:
                path.write_bytes(content)
            print(f"{family.name}: {len(family.cases)} cases of {len({c['op'] for c in family.cases})} functions, {len(content) / 1024:.0f} KiB")
    if total > LIMIT:
        sys.exit(f"generate: {total} bytes; the limit is {LIMIT}")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
