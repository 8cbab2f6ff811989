#!/usr/bin/env python3
"""Random calls of Heddle's functions beside PyTorch: values, gradients, dtypes and what is refused.

  python3 bench/drawn_calls.py --program build/release/bin/heddle_drawn_calls --count 2000 --seed 1 --devices reference:0,opencl:0,vulkan:0
  python3 bench/drawn_calls.py ... --only 17,203      those calls of that seed alone, with their inputs and both answers

A call is a row of tests/reference/rows_*.py (which say how PyTorch computes each function) or one of ours below, with
everything else drawn from the seed: sizes (0, 1, odd ones, powers of two), dtypes, values (with zeros, infinities, NaN
and large numbers among them), and how each input lies in memory (behind other rows, strided, flipped, turned,
expanded). PyTorch computes each call in the call's dtypes and once more in double precision; an answer of Heddle's is
right when it is near either. Needs PyTorch; Heddle's side is the C++ program. Exit code 1 when a call differs that
KNOWN does not explain.
"""
import argparse
import collections
import importlib
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "reference"))
from generate import CRASHES, FLOATS, WHOLE, Input, as_list, given, near, whole  # noqa: E402

DTYPES = {**FLOATS, **WHOLE}
PIECE = 50  # calls that are in memory at the same time: one may take a gigabyte
SIZES = [0, 1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 64, 65]
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 1e-8, -1e-4, 300.0, -300.0, 7e4, -7e4, 1e20, -1e20, 3e38]
NUMBERS = [0.0, 1.0, -1.0, 0.1, 2.0, 3.0, 0.5, -0.3, 1e-8, 300.0, 70000.0, 1e10, -2.5, 1e39]
UNIT = {"f64": 2e-6, "f32": 2e-5, "f16": 2e-3, "bf16": 1.6e-2}
UNTYPED = {"rotary_embedding", "one_hot", "eye", "ones", "zeros", "full", "linspace"}  # their rows compute in double precision
LEAST = {"f64": 1e-12, "f32": 1e-6, "f16": 1e-4, "bf16": 1e-3}  # docs/numbers.md
RANDOM = {"dropout", "uniform", "normal", "bernoulli"}
# The differences that docs/ state: functions and dtypes (none: all), words that the difference's text holds, whether
# only beside inputs that are not finite or huge, and the words of the page that state it.
KNOWN = json.loads((ROOT / "bench" / "drawn_calls_known.json").read_text())


class Row:
    def __init__(self, op, compute, inputs, args, dtype, grad, out):
        self.op, self.compute, self.inputs, self.args, self.dtype, self.grad, self.out = op, compute, inputs, args, dtype, grad, out


def all_rows():
    """{function: [Row]}, without computing anything."""
    found = collections.defaultdict(list)

    def row(op, compute, inputs, args=({},), dtypes=("f32",), grad=True, pairs=False, out=None, derive=()):
        lists = [[i if isinstance(i, Input) else Input(i) for i in (l if isinstance(l, list) else [l])] for l in inputs]
        args = list(args)
        for some, arg in zip(lists, args) if pairs else [(l, a) for l in lists for a in args]:
            for dtype in dtypes:
                found[op].append(Row(op, compute, some, arg, dtype, grad, out))

    for path in sorted((ROOT / "tests" / "reference").glob("rows_*.py")):
        importlib.import_module(path.stem).rows(row)
    number_rows(row)
    return found


def number_rows(row):
    """A number beside a tensor, and casts."""
    both = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "eq": torch.eq,
        "ne": torch.ne, "lt": torch.lt, "le": torch.le,
            "gt": torch.gt, "ge": torch.ge, "mod": torch.remainder}
    right = {"fmod": torch.fmod, "floor_divide": torch.floor_divide,
             "minimum": lambda x, y: torch.minimum(x, torch.full_like(x, y)), "maximum": lambda x, y: torch.maximum(x, torch.full_like(x, y))}
    turned = {"sub": lambda x, y: y - x, "div": lambda x, y: y / x, "pow": lambda x, y: torch.pow(y, x), "add": lambda x, y: y + x, "mul": lambda x, y: y * x}
    args = [{"number": n} for n in NUMBERS]
    kinds = ("f32", "f16", "bf16")
    for name, f in {**both, **right}.items():
        row(f"{name}_number", lambda x, number, f=f: f(x, number), [[near(-4, 4, 5, 33)]], args, dtypes=kinds)
    for name, f in turned.items():
        row(f"number_{name}", lambda x, number, f=f: f(x, number), [[near(-4, 4, 5, 33)]], args, dtypes=kinds)
    for dtype in DTYPES:
        row("cast", lambda x, dtype: saturated(x, dtype), [[near(-300, 300, 5, 33)], [whole((5, 33), -200, 200)]], [{"dtype": dtype}], dtypes=kinds)


def saturated(x, dtype):
    """What docs/numbers.md promises of casts; PyTorch promises nothing out of range."""
    target = getattr(torch, DTYPES[dtype])
    if not x.is_floating_point() or dtype in FLOATS or dtype == "bool":
        return x.to(target)
    info = torch.iinfo(target)
    wide = x.double()
    inside = wide.clamp(float(info.min), float(info.max)).nan_to_num(0.0)
    result = torch.where(inside >= 2.0**63, 0.0, inside).trunc().to(target)
    return torch.where(wide >= 2.0**63, torch.tensor(info.max, dtype=target), result) if dtype == "i64" else result


class Call:
    """One drawn call: inputs as arrays, and what PyTorch says."""

    def __init__(self, number, row, dtype, arrays, types, ways):
        self.number, self.row, self.dtype, self.arrays, self.types, self.ways = number, row, dtype, arrays, types, ways
        self.cotangents, self.answers = {}, {}

    def describe(self):
        shapes = ", ".join(f"{t}{tuple(a.shape)}/{w}" for a, t, w in zip(self.arrays, self.types, self.ways))
        return f"{self.number}: {self.row.op}({shapes}; {self.row.args})"

    def leaves(self, wide):
        made = []
        for array, dtype in zip(self.arrays, self.types):
            exact = torch.from_numpy(np.array(array)).to(getattr(torch, DTYPES[dtype]))
            made.append(exact.double() if wide and dtype in FLOATS else exact)
        return made

    def compute(self, wide, rng):
        leaves = self.leaves(wide)
        wanted = [k for k in self.wanted() if leaves[k].is_floating_point()]
        for k in wanted:
            leaves[k].requires_grad_()
        outputs = as_list(self.row.compute(*leaves, **self.row.args))
        smooth = [k for k, o in enumerate(outputs) if o.is_floating_point() and o.requires_grad]
        for k in smooth:
            if k not in self.cotangents:
                drawn = torch.from_numpy(rng.uniform(-1, 1, tuple(outputs[k].shape))).reshape(outputs[k].shape)
                self.cotangents[k] = drawn.to(getattr(torch, FLOATS[self.dtype])).double()
        gradients = {}
        if smooth and wanted:
            given_by = torch.autograd.grad([outputs[k] for k in smooth], [leaves[k] for k in wanted],
                [self.cotangents[k].to(outputs[k].dtype) for k in smooth], allow_unused=True)
            gradients = {k: g for k, g in zip(wanted, given_by) if g is not None}
        self.answers[wide] = ([o.detach() for o in outputs], {k: g.detach() for k, g in gradients.items()})

    def extreme(self):
        """Whether an input holds NaN, an infinity, or a number whose square f32 does not hold."""
        return any(array.dtype.kind == "f" and array.size and not (np.abs(array) < 1e19).all() for array in self.arrays)

    def wanted(self):
        return [k for k, (i, t) in enumerate(zip(self.row.inputs, self.types)) if self.row.grad and i.grad and t in FLOATS]


def resized(inputs, rng):
    """The inputs with each size above 1 replaced by another, the same in all of them."""
    if any(i.values is not None for i in inputs) or rng.random() < 0.35:
        return inputs
    to = {}
    for i in inputs:
        for n in i.shape:
            if n > 1 and n not in to:
                to[n] = int(rng.choice(SIZES)) if rng.random() < 0.6 else n
    return [Input(tuple(to.get(n, n) for n in i.shape), i.low, i.high, i.dtype, i.grad, distinct=i.distinct, symmetric=i.symmetric) for i in inputs]


def drawn_array(spec, dtype, special, rng):
    array = np.array(spec.draw(rng, dtype))
    if spec.symmetric:
        array = (array + np.swapaxes(array, -1, -2)) / 2
    if special and dtype in FLOATS and spec.grad and array.size and spec.values is None:
        flat = array.reshape(-1)
        for at in rng.integers(0, array.size, max(1, array.size // 8)):
            flat[at] = SPECIAL[int(rng.integers(len(SPECIAL)))]
        array = flat.reshape(array.shape)
    return array


def stored(array, dtype):
    """As that dtype holds it, as f64 or i64."""
    if dtype in FLOATS:
        return torch.from_numpy(np.array(array, np.float64)).to(getattr(torch, FLOATS[dtype])).double().numpy()
    return np.array(array).astype(np.int64).astype({"i8": np.int8, "u8": np.uint8, "i32": np.int32, "i64": np.int64, "bool": bool}[dtype]).astype(np.int64)


def ends_pytorch(row, arrays):
    """Whether PyTorch itself may write outside of its memory: coordinates that are not finite, a window that holds padding alone."""
    if row.op in CRASHES:
        return not all(np.isfinite(array).all() for array in arrays)
    dilation = np.max(row.args.get("dilation", 1))
    return row.op.startswith("max_pool") and any(n < dilation for n in arrays[0].shape[2:])


def draw_call(number, rows, seed):
    """The call of that number: alike for every count. PyTorch must take it."""
    rng = np.random.Generator(np.random.Philox(key=[seed, number]))
    names = sorted(rows)
    for _ in range(200):
        name = names[int(rng.integers(len(names)))]
        row = rows[name][int(rng.integers(len(rows[name])))]
        if name in RANDOM:
            continue
        floats = row.dtype in FLOATS
        dtype = str(rng.choice(["f32", "f32", "f16", "bf16", "f64", row.dtype])) if floats and rng.random() < 0.5 else row.dtype
        whole_dtype = str(rng.choice(["i32", "i64", "i8", "u8"])) if not floats and rng.random() < 0.4 else dtype
        inputs = resized(row.inputs, rng)
        types = [i.dtype or whole_dtype for i in inputs]
        special = rng.random() < 0.3
        try:
            arrays = [stored(drawn_array(i, t, special, rng), t) for i, t in zip(inputs, types)]
        except ValueError:
            continue
        ways = [int(rng.integers(5)) for _ in arrays]
        for k, array in enumerate(arrays):  # expanded: every row the first
            if inputs[k].grad and array.ndim and array.shape[0] > 0 and not inputs[k].distinct and not inputs[k].symmetric and rng.random() < 0.1:
                arrays[k], ways[k] = np.ascontiguousarray(np.broadcast_to(array[:1], array.shape)), 5
        if ends_pytorch(row, arrays):
            continue
        call = Call(number, Row(row.op, row.compute, inputs, row.args, dtype, row.grad, row.out), dtype, arrays, types, ways)
        try:
            call.compute(True, rng)
        except Exception:
            continue
        try:
            call.compute(False, rng)
        except Exception:  # PyTorch lacks it in that dtype: double precision is the answer
            pass
        return call
    raise SystemExit(f"drawn_calls: nothing was drawn for call {number}")


def write_safetensors(path, calls):
    header, data, at = {}, [], 0

    def put(name, array):
        nonlocal at
        array = np.ascontiguousarray(array, np.float64 if np.asarray(array).dtype.kind == "f" else np.int64).reshape(np.shape(array))
        raw = array.tobytes()
        header[name] = {"dtype": "F64" if array.dtype == np.float64 else "I64", "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)

    cases = []
    for n, call in enumerate(calls):
        for k, array in enumerate(call.arrays):
            put(f"{n}.in.{k}", array)
        for k, cotangent in call.cotangents.items():
            put(f"{n}.cot.{k}", cotangent.numpy())
        cases.append({"op": call.row.op, "args": call.row.args, "in": call.types, "ways": call.ways, "grad": sorted(call.answers[True][1])})
    header["__metadata__"] = {"cases": json.dumps(cases)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    kinds = {"F64": np.float64, "I64": np.int64, "F32": np.float32}
    tensors = {name: np.frombuffer(raw[8 + size:], kinds[t["dtype"]], offset=t["data_offsets"][0], count=int(np.prod(t["shape"]))).reshape(t["shape"])
               for name, t in header.items() if name != "__metadata__"}
    return {a["call"]: a for a in json.loads(header["__metadata__"]["answers"])}, tensors


def ask(program, device, calls, folder):
    """(answers by place in calls, tensors). A call that ends the process is named and left out."""
    path, answers, tensors = folder / "calls.safetensors", {}, {}
    write_safetensors(path, calls)
    first = 0
    while first < len(calls):
        out = folder / "answers.safetensors"
        last = len(calls)
        done = subprocess.run([program, device, path, out, str(first), str(last)], capture_output=True, text=True)
        if done.returncode == 0:
            said, made = read_safetensors(out)
            answers.update(said)
            tensors.update(made)
            first = last
            continue
        now = int((folder / "answers.safetensors.now").read_text())
        if now > first:  # those before it, again
            subprocess.run([program, device, path, out, str(first), str(now)], capture_output=True, check=True)
            said, made = read_safetensors(out)
            answers.update(said)
            tensors.update(made)
        answers[now] = {"crashed": f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"}
        first = now + 1
    return answers, tensors


def wrong_elements(found, expected, unit, floor):
    """Where found is not expected, up to rounding."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(all="ignore"):
        return ~(same | (np.abs(found - expected) <= unit * np.abs(expected) + floor))


def compare(call, what, found, dtype, native, wide):
    """Empty, or what differs. Elements may agree with either of PyTorch's answers."""
    expected = wide.double().numpy()
    if found.shape != expected.shape:
        return f"{what} is {found.shape}, PyTorch {expected.shape}"
    if not found.size:
        return ""
    unit = UNIT.get(dtype, 0.0)
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 0.0
    sums = "gradient" in what or "fft" in call.row.op or call.row.op == "matrix_power"  # which may cancel
    floor = 0.0 if dtype not in UNIT else unit * (scale if sums else min(scale, 1.0)) + LEAST[dtype]
    bad = wrong_elements(found, stored_as(expected, dtype), unit, floor)
    if native is not None:
        other = native.double().numpy().reshape(found.shape)
        with np.errstate(all="ignore"):  # near PyTorch's own answer in that dtype, or not much further from the exact one
            bad &= wrong_elements(found, other, unit, floor) & ~(np.abs(found - expected) <= 2 * np.abs(other - expected))
    if not bad.any():
        return ""
    at = int(np.flatnonzero(bad.reshape(-1))[0])
    other = "" if native is None else f" (in {dtype} {native.double().numpy().reshape(-1)[at]:.7g})"
    # Where all that differ are NaN or infinite in one of the answers, the formula made them so.
    kind = "not finite" if (~np.isfinite(found[bad]) | ~np.isfinite(expected[bad])).all() else "finite"
    return (f"{what} {dtype} differs where {kind}: {int(bad.sum())} of {bad.size}, element {at} is "
            f"{found.reshape(-1)[at]:.7g}, PyTorch {expected.reshape(-1)[at]:.7g}{other}")


def stored_as(values, dtype):
    with np.errstate(all="ignore"):
        return torch.from_numpy(values).to(getattr(torch, FLOATS[dtype])).double().numpy() if dtype in FLOATS else values


def heddle_dtype(tensor):
    names = {str(getattr(torch, v)): k for k, v in DTYPES.items()}
    return names.get(str(tensor.dtype), str(tensor.dtype))


def judge(call, place, answer, tensors):
    """What is wrong with one answer; empty when nothing is."""
    if "crashed" in answer:
        return ["crashed: " + answer["crashed"]]
    if "refused" in answer:
        return ["refused: " + answer["refused"]]
    wrong = []
    wide, native = call.answers[True], call.answers.get(False)
    if len(answer["out"]) != len(wide[0]):
        return [f"{len(answer['out'])} results, PyTorch {len(wide[0])}"]
    for k, dtype in enumerate(answer["out"]):
        typed = native is not None and call.row.out != "any" and call.row.op not in UNTYPED
        if typed and native[0][k].is_floating_point() and heddle_dtype(native[0][k]) != dtype:
            wrong.append(f"dtype of output {k} is {dtype}, PyTorch {heddle_dtype(native[0][k])}")
        wrong.append(compare(call, f"output {k}", tensors[f"{place}.out.{k}"], dtype, native and native[0][k], wide[0][k]))
    for k, dtype in zip(sorted(wide[1]), answer["grad"]):
        other = native[1].get(k) if native else None
        wrong.append(compare(call, f"gradient of input {k}", tensors[f"{place}.grad.{k}"], dtype, other, wide[1][k]))
    return [w for w in wrong if w]


def known(call, text):
    """The entry of KNOWN that states the difference."""
    def states(entry):
        fits = (not entry["functions"] or call.row.op in entry["functions"]) and (not entry["dtypes"] or call.dtype in entry["dtypes"])
        return fits and all(word in text for word in entry["says"]) and (call.extreme() or not entry["extreme"])

    return next((entry for entry in KNOWN if states(entry)), None)


def check_known():
    """Each entry's words stand in its page."""
    for entry in KNOWN:
        page = " ".join((ROOT / entry["page"]).read_text().split())
        if entry["states"] not in page:
            raise SystemExit(f"drawn_calls: {entry['page']} does not say \"{entry['states']}\"")


def show(call, place, tensors):
    for k, array in enumerate(call.arrays):
        print(f"  input {k}: {array.reshape(-1)[:40]}")
    for name, array in tensors.items():
        if name.startswith(f"{place}."):
            print(f"  {name}: {array.reshape(-1)[:40]}")
    for wide, (outputs, gradients) in call.answers.items():
        print(f"  PyTorch {'f64' if wide else 'native'}: {[o.reshape(-1)[:40].tolist() for o in outputs]} "
              f"{({k: g.reshape(-1)[:40].tolist() for k, g in gradients.items()})}")


class Report:
    """Counts of each device, and the entries of KNOWN that were met."""

    def __init__(self, options):
        self.options, self.used, self.counts = options, set(), collections.defaultdict(collections.Counter)

    def add(self, device, call, place, answer, tensors):
        wrong = judge(call, place, answer, tensors)
        explained = [known(call, w) for w in wrong]
        self.counts[device]["equal" if not wrong else "stated" if all(explained) else "differ"] += 1
        for text, entry in zip(wrong, explained):
            if entry is None:
                print(f"{device} {call.describe()}: {text}", flush=True)
                continue
            self.used.add(KNOWN.index(entry))
            if self.options.stated:
                print(f"{device} stated by {entry['page']}: {call.describe()}: {text}", flush=True)
        if self.options.only:
            show(call, place, tensors)

    def end(self):
        for device, counts in self.counts.items():
            print(f"{device}: {counts['equal']} equal, {counts['stated']} differ as docs/ state, {counts['differ']} differ", flush=True)
        for k, entry in enumerate(KNOWN) if self.options.stated else []:
            if k not in self.used:
                print(f"not met: {entry['functions']} {entry['says']}")
        return 1 if any(counts["differ"] for counts in self.counts.values()) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "bin" / "heddle_drawn_calls"))
    parser.add_argument("--devices", default="reference:0,opencl:0,vulkan:0")
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="numbers of calls, with all that is known of them")
    parser.add_argument("--stated", action="store_true", help="print what differs as stated too, and the entries that nothing met")
    options = parser.parse_args()
    torch.set_num_threads(1)
    check_known()
    rows, report, functions, gradients = all_rows(), Report(options), set(), 0
    numbers = [int(n) for n in options.only.split(",")] if options.only else range(options.first, options.first + options.count)
    with tempfile.TemporaryDirectory() as folder:
        for piece in range(0, len(numbers), PIECE):
            calls = [draw_call(n, rows, options.seed) for n in numbers[piece:piece + PIECE]]
            functions.update(call.row.op for call in calls)
            gradients += sum(bool(call.answers[True][1]) for call in calls)
            for device in options.devices.split(","):
                answers, tensors = ask(options.program, device, calls, pathlib.Path(folder))
                for place, call in enumerate(calls):
                    report.add(device, call, place, answers[place], tensors)
    print(f"{len(numbers)} calls of {len(functions)} functions, seed {options.seed}; {gradients} with gradients", flush=True)
    sys.exit(report.end())


if __name__ == "__main__":
    main()
