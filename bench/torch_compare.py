#!/usr/bin/env python3
"""The cases of `heddle bench` in PyTorch, beside Heddle's figures.

  heddle bench matmul softmax --json > heddle.json
  python3 bench/torch_compare.py heddle.json [--device cuda] [--json]

Reads lines of JSON as `heddle bench --json` prints them (with `--list --json`, which measures nothing, only PyTorch's column is filled; "-" is standard
input). Each case runs eagerly in PyTorch on random data of the same shape and dtype, with gradients off unless the case is one: warm-up, then at least ten
repetitions of some milliseconds; medians. The ratio is PyTorch seconds / Heddle seconds: above 1, Heddle is faster. The two programs do not take turns, so
compare on an idle machine. Exit code: 0, or 2 with one line when PyTorch or the file is missing.
"""
import argparse
import json
import statistics
import sys
import time


def fail(text):
    print(f"torch_compare: {text}", file=sys.stderr)
    sys.exit(2)


def sizes(text):
    return [int(part) for part in text.split("x")]


class Cases:
    """One method a family: case text and dtype -> a function of no arguments to time, or None."""

    def __init__(self, torch, device):
        self.torch = torch
        self.device = device
        self.dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i8": torch.int8}

    def random(self, shape, dtype):
        x = self.torch.rand(shape, device=self.device) - 0.5
        return x.to(self.dtypes[dtype])

    def find(self, family, case, dtype):
        method = getattr(self, family, None)
        if method is None or dtype not in self.dtypes:
            return None
        try:
            return method(case, dtype)
        except (ValueError, IndexError):
            return None  # a form that has no counterpart here

    def matmul(self, case, dtype):
        batch, rest = case.split("*") if "*" in case else (None, case)
        layout, rest = rest.split(":") if ":" in rest else ("nn", rest)
        m, n, k = sizes(rest)
        lead = [int(batch)] if batch else []
        a = self.random(lead + ([k, m] if layout[0] == "t" else [m, k]), dtype)
        b = self.random(lead + ([n, k] if layout[1] == "t" else [k, n]), dtype)
        a = a.transpose(-1, -2) if layout[0] == "t" else a
        b = b.transpose(-1, -2) if layout[1] == "t" else b
        return lambda: a @ b

    def softmax(self, case, dtype):
        x = self.random(sizes(case), dtype)
        return lambda: self.torch.softmax(x, -1)

    def layernorm(self, case, dtype):
        x = self.random(sizes(case), dtype)
        scale, shift = self.random([x.shape[-1]], dtype), self.random([x.shape[-1]], dtype)
        return lambda: self.torch.nn.functional.layer_norm(x, [x.shape[-1]], scale, shift)

    def reduce(self, case, dtype):
        columns = case.startswith("cols:")
        shape = sizes(case.removeprefix("cols:"))
        x = self.random(shape, dtype)
        if len(shape) == 1:
            return lambda: x.sum()
        return lambda: x.sum(0 if columns else 1)

    def elementwise(self, case, dtype):
        a, b = self.random(sizes(case), dtype), self.random(sizes(case), dtype)
        return lambda: 2.0 * a + b

    def chain(self, case, dtype):
        torch = self.torch
        shape = sizes(case.removeprefix("unfused:"))
        x, y = self.random(shape, dtype), self.random(shape, dtype)

        def run():
            t = (x * y + x) * 0.5
            t = torch.maximum(t.abs() - y, x)
            return (t * t + 1.0).sqrt() - x

        return run

    def transpose(self, case, dtype):
        batch, rest = case.split("*") if "*" in case else ("1", case)
        x = self.random([int(batch)] + sizes(rest), dtype)
        return lambda: -x.transpose(-1, -2).contiguous()

    def gather(self, case, dtype):
        wanted, rows = case.split("@")
        count, width = sizes(wanted)
        table = self.random([int(rows), width], dtype)
        indices = self.torch.randint(int(rows), [count], device=self.device)
        return lambda: self.torch.index_select(table, 0, indices)

    def copy(self, case, dtype):
        x = self.random(sizes(case), dtype)
        return lambda: -x

    def attention(self, case, dtype):
        functional = self.torch.nn.functional
        gradient = case.startswith("grad:")
        shape = sizes(case.removeprefix("grad:"))
        if len(shape) != 4:
            return None
        q, k, v = (self.random(shape, dtype).requires_grad_(gradient) for _ in range(3))
        if not gradient:
            return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        cotangent = self.random(shape, dtype)

        def run():
            q.grad = k.grad = v.grad = None
            functional.scaled_dot_product_attention(q, k, v, is_causal=True).backward(cotangent)

        return run

    def optimizer(self, case, dtype):
        kind, rest = case.split(":")
        clip = kind.startswith("clip-")
        kind = kind.removeprefix("clip-")
        count, length = sizes(rest)
        makers = {"adamw": lambda p: self.torch.optim.AdamW(p, lr=1e-3), "adam": lambda p: self.torch.optim.Adam(p, lr=1e-3),
                  "sgd": lambda p: self.torch.optim.SGD(p, lr=1e-2, momentum=0.9)}
        if kind not in makers:
            return None
        parameters = [self.random([length], dtype).requires_grad_() for _ in range(count)]
        for p in parameters:
            p.grad = self.random([length], dtype)
        optimizer = makers[kind](parameters)
        if not clip:
            return optimizer.step

        def run():
            self.torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()

        return run


def measure(torch, call, repetitions, device):
    finish = torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)

    def once(calls):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        finish()
        return (time.perf_counter() - start) / calls

    for _ in range(3):
        seconds = once(1)
    calls = max(1, min(2000, int(8e-3 / max(seconds, 1e-7))))
    return statistics.median(once(calls) for _ in range(repetitions))


def read_rows(path):
    try:
        with (sys.stdin if path == "-" else open(path, encoding="utf-8")) as file:
            rows = [json.loads(line) for line in file if line.strip()]
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    except json.JSONDecodeError as error:
        fail(f"{path}: is no output of heddle bench --json: {error}")
    return [row for row in rows if isinstance(row, dict) and "bench" in row and "case" in row]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="lines of JSON from heddle bench --json")
    parser.add_argument("--device", default="cpu", help="PyTorch's device: cpu or cuda")
    parser.add_argument("--threads", type=int, help="PyTorch's threads; default: its own choice")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print lines of JSON instead of a table")
    options = parser.parse_args()
    if options.repetitions < 10:
        fail(f"{options.repetitions} repetitions, expected at least 10")
    rows = read_rows(options.file)
    try:
        import torch
    except ImportError as error:
        fail(f"PyTorch cannot be imported ({error}); install it, e.g. pip install torch --index-url https://download.pytorch.org/whl/cpu")
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        fail("PyTorch sees no CUDA device")
    cases = Cases(torch, options.device)
    if not options.json:
        print(f"PyTorch {torch.__version__} on {options.device}, {torch.get_num_threads()} threads")
        print(f"{'case':<42} {'device':<10} {'Heddle us':>11} {'PyTorch us':>11} {'ratio':>6}")
    for row in rows:
        call = cases.find(row["bench"], row["case"], row.get("dtype", "f32"))
        theirs = measure(torch, call, options.repetitions, options.device) if call else None
        ours = row.get("seconds")
        ratio = theirs / ours if theirs and ours else None
        if options.json:
            print(json.dumps({"bench": row["bench"], "case": row["case"], "dtype": row.get("dtype"), "device": row.get("device"), "seconds": ours,
                              "torch_seconds": theirs, "ratio": ratio}), flush=True)
            continue
        name = f"{row['bench']} {row['case']} {row.get('dtype', '')}"
        micro = lambda s: f"{s * 1e6:.1f}" if s else "-"
        print(f"{name:<42} {row.get('device', '-'):<10} {micro(ours):>11} {micro(theirs):>11} {f'{ratio:.2f}' if ratio else '-':>6}", flush=True)


if __name__ == "__main__":
    main()
