#!/usr/bin/env python3
"""The cases of `heddle bench` in PyTorch, in turns with Heddle.

  python3 bench/torch_compare.py --heddle build/bin/heddle --device opencl:0 step --cases mlp:32 --compile
  python3 bench/torch_compare.py --heddle build/bin/heddle --device null:0 dispatch --cases record_per_op,replay_per_step
  python3 bench/torch_compare.py --heddle build/bin/heddle matmul
  python3 bench/torch_compare.py --heddle build/bin/heddle --device opencl:0 infer --compile --onnx

Each case runs in rounds: Heddle (a process of its own, `heddle bench --json`), PyTorch eager and, with --compile, torch.compile, and with --onnx ONNX
Runtime, one after the other, so that whatever else the machine does meets all of them. PyTorch computes on random data of the same shapes and dtype,
gradients off unless the case is one: warm-up, then at least ten repetitions of some milliseconds. Printed are the medians of the rounds and the
ratios PyTorch seconds / Heddle seconds (above 1, Heddle is faster) with their range over the rounds. PyTorch's optimizers are the fused ones. Exit
code: 0, or 2 with one line when PyTorch or heddle is missing.
"""
import argparse
import json
import os
import statistics
import subprocess
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
        except (ValueError, IndexError, KeyError):
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

    def linalg(self, case, dtype):
        linalg = self.torch.linalg
        kind, rest = case.split(":")
        batch, n = sizes(rest)
        a = self.random([batch, n, n], dtype)
        if kind in ("cholesky", "solve", "eigh"):
            a = a @ a.mT / n + self.torch.eye(n)
        b = a.flip(-1)
        calls = {"cholesky": lambda: linalg.cholesky_ex(a), "solve": lambda: linalg.solve_ex(a, b), "qr": lambda: linalg.qr(a), "eigh": lambda: linalg.eigh(a),
                 "svd": lambda: linalg.svd(a, full_matrices=False)}
        return calls.get(kind)

    def fft(self, case, dtype):
        kind, rest = case.split(":") if ":" in case else ("", case)
        rows, n = sizes(rest)
        if kind == "real":
            x = self.random([rows, n], dtype)
            return lambda: self.torch.fft.rfft(x)
        x = self.torch.view_as_complex(self.random([rows, n // 2 + 1 if kind else n, 2], dtype))
        if kind:
            return lambda: self.torch.fft.irfft(x, n)
        return lambda: self.torch.fft.fft(x)

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


    def dispatch(self, case, dtype):
        """The graph of bench/host_time.cpp, op by op: seconds of one op (record_per_op) or of the whole step."""
        torch = self.torch
        if case not in ("record_per_op", "replay_per_step"):
            return None
        inputs = [self.random([64 + c], dtype) for c in range(200)]
        operations = [torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum]

        def run():
            results = []
            for c, x in enumerate(inputs):
                t, code = x, c
                for _ in range(5):
                    t = operations[code % 5](t, x)
                    code //= 5
                results.append(t)
            return results

        run.operations = 1000 if case == "record_per_op" else 1
        return run

    def step(self, case, dtype):
        """Forward, backward and update of bench/training_step.cpp's models; bf16: the forward pass under autocast."""
        torch, functional = self.torch, self.torch.nn.functional
        low, dtype = self.dtypes[dtype], "f32"
        kind, _, rest = case.partition(":")
        size = sizes(rest or {"mnist-mlp": "32", "mnist-cnn": "64", "vae": "128", "char-lstm": "32", "char-gpt": "12"}[kind])
        optimizer_of, classes, clip = torch.optim.Adam, 10, None
        if kind in ("mlp", "mnist-mlp"):
            model, x = mlp(torch), self.random([size[0], 784], dtype)
        elif kind == "cnn":
            model, x = cnn(torch), self.random([size[0], 1, 28, 28], dtype)
        elif kind == "mnist-cnn":
            model, x = lenet(torch), self.random([size[0], 1, 28, 28], dtype)
        elif kind == "resnet18":
            model, x = resnet18(torch, size[1]), self.random([size[0], 3, 32, 32], dtype)
        elif kind == "vae":
            model, x = vae(torch), self.random([size[0], 784], dtype) + 0.5
        elif kind == "char-lstm":
            classes, clip = 65, 1.0
            model, x = lstm(torch, classes, 64, 256, 2), torch.randint(classes, [size[0], 64], device=self.device)
        elif kind == "gpt":
            optimizer_of, classes = torch.optim.AdamW, 256
            model, x = gpt(torch, classes, *size[1:]), torch.randint(classes, size[:2], device=self.device)
        elif kind == "char-gpt":  # nanoGPT's configuration for a CPU
            optimizer_of, classes, clip = torch.optim.AdamW, 65, 1.0
            model, x = gpt(torch, classes, 64, 4, 128), torch.randint(classes, [size[0], 64], device=self.device)
        else:
            return None
        model.to(self.device)
        labels = torch.randint(classes, [x.shape[0] if x.is_floating_point() else x.numel()], device=self.device)
        optimizer = optimizer_of(model.parameters(), lr=1e-3, fused=True)

        def loss():
            if kind == "vae":
                return model(x)
            return functional.cross_entropy(model(x).reshape(-1, classes), labels)

        if low != torch.float32:  # f32 enters no scope, whose price would be the peer's
            loss = torch.autocast(self.device.split(":")[0], dtype=low)(loss)

        def step_of(loss):
            def run():
                optimizer.zero_grad()
                loss().backward()
                if clip:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()

            return run

        run = step_of(loss)
        run.compiled = lambda: [step_of(torch.compile(loss)), torch.compile(run)]  # the model alone, as most people do, and all of the step
        return run

    def infer(self, case, dtype):
        """The forward pass of bench/cases_infer.cpp's models, in eval mode."""
        torch = self.torch
        kind, _, batch = case.partition(":")
        batch = int(batch)
        if kind in ("resnet18", "resnet50", "mobilenet-v2", "vit"):
            import torchvision.models as zoo

            make = {"resnet18": zoo.resnet18, "resnet50": zoo.resnet50, "mobilenet-v2": zoo.mobilenet_v2, "vit": zoo.vit_b_16}
            model, x = make[kind](), self.random([batch, 3, 224, 224], dtype)
        elif kind in ("mlp", "cnn"):
            model, x = {"mlp": mlp, "cnn": cnn}[kind](torch), self.random([batch, 784] if kind == "mlp" else [batch, 1, 28, 28], dtype)
        elif kind == "gpt2":
            model, x = gpt(torch, 50257, 128, 12, 768, 12), torch.randint(50257, [batch, 128], device=self.device)
        elif kind == "char-gpt":
            model, x = gpt(torch, 65, 64, 4, 128), torch.randint(65, [batch, 64], device=self.device)
        elif kind == "lstm":
            model, x = lstm(torch, 65, 64, 256, 2), torch.randint(65, [batch, 64], device=self.device)
        else:
            return None
        model.to(self.device).eval()

        def run_with(forward):
            def run():
                with torch.inference_mode():
                    return forward(x)

            return run

        run = run_with(model)
        run.compiled = lambda: [run_with(torch.compile(model))]
        run.onnx = lambda threads: onnx_session(torch, model, x, threads)
        return run

    def generate(self, case, dtype):
        """Greedy tokens behind a prompt of one, with a cache of keys and values that is written in place; the host reads each token."""
        torch = self.torch
        length, layers, width, heads, vocabulary = sizes(case)
        model = gpt(torch, vocabulary, length, layers, width, heads).to(self.device, self.dtypes[dtype]).eval()
        position = [torch.tensor([t], device=self.device) for t in range(length)]

        def run_with(step):
            def run():
                with torch.inference_mode():
                    caches = [torch.zeros(2, 1, heads, length, width // heads, device=self.device, dtype=self.dtypes[dtype]) for _ in range(layers)]
                    token, text = torch.zeros(1, 1, dtype=torch.long, device=self.device), []
                    for t in range(length):
                        token = step(token, position[t], caches).argmax(-1)
                        text.append(token.item())
                return text

            run.operations = length
            return run

        def whole(token, at, caches):  # positions that are not filled are masked, so that every step has the same shapes
            return model.step(token, at, caches, torch.arange(length, device=self.device)[None, :] <= at)

        run = run_with(lambda token, at, caches: model.step(token, at, caches, None))
        run.compiled = lambda: [run_with(torch.compile(whole))]
        return run


def mlp(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn(torch):
    nn, layers, channels = torch.nn, [], 1
    for width in (16, 32, 64):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def lenet(torch):
    nn, layers, channels = torch.nn, [], 1
    for width in (16, 32, 64):
        layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * 9, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10))


def resnet18(torch, width):
    nn = torch.nn

    def convolution(before, after, kernel, stride):
        return nn.Sequential(nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after))

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.path = nn.Sequential(convolution(before, after, 3, stride), nn.ReLU(), convolution(after, after, 3, 1))
            self.shortcut = nn.Identity() if before == after else convolution(before, after, 1, stride)

        def forward(self, x):
            return torch.relu(self.path(x) + self.shortcut(x))

    layers, before = [convolution(3, width, 3, 1), nn.ReLU()], width
    for stage in range(4):
        after = width << stage
        layers += [Block(before, after, 1 if stage == 0 else 2), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


def vae(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Vae(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40))
            self.decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

        def forward(self, x):  # the loss
            mean, log_variance = self.encoder(x).chunk(2, 1)
            logits = self.decoder(mean + (log_variance * 0.5).exp() * torch.randn_like(mean))
            divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum()
            return (functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") + divergence) / len(x)

    return Vae()


def lstm(torch, vocabulary, width, hidden, layers):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.rnn, self.decoder = nn.Embedding(vocabulary, width), nn.LSTM(width, hidden, layers,
                batch_first=True), nn.Linear(hidden, vocabulary)

        def forward(self, tokens):
            return self.decoder(self.rnn(self.encoder(tokens))[0])

    return Model()


def gpt(torch, vocabulary, length, layers, width, heads=None):
    nn, functional, heads = torch.nn, torch.nn.functional, heads or width // 32

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def project(self, x):
            b, t, _ = x.shape
            return self.qkv(self.ln_1(x)).view(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)

        def finish(self, x, mixed):
            x = x + self.proj(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.shrink(functional.gelu(self.grow(self.ln_2(x)), approximate="none"))

        def forward(self, x):
            q, k, v = self.project(x)
            return self.finish(x, functional.scaled_dot_product_attention(q, k, v, is_causal=True))

        def step(self, x, at, cache, mask):
            q, k, v = self.project(x)
            cache[0].index_copy_(2, at, k)
            cache[1].index_copy_(2, at, v)
            held = cache if mask is not None else cache[:, :, :, : at.item() + 1]
            return self.finish(x, functional.scaled_dot_product_attention(q, held[0], held[1], attn_mask=mask))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.h, self.ln_f = nn.Sequential(*(Block() for _ in range(layers))), nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
            return self.ln_f(self.h(x)) @ self.wte.weight.T

        def step(self, token, at, caches, mask):
            """One token (1, 1) at the position `at` (1); logits (1, 1, vocabulary)."""
            x = self.wte(token) + self.wpe(at)
            for block, cache in zip(self.h, caches):
                x = block.step(x, at, cache, mask)
            return self.ln_f(x) @ self.wte.weight.T

    return Gpt()


def onnx_session(torch, model, x, threads):
    """A call of ONNX Runtime on the model that torch.onnx exports (it needs onnxscript)."""
    import io

    import onnxruntime

    file = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(model, (x,), dynamo=True, verbose=False).save(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x.numpy()}
    expected, found = model(x).detach().numpy(), session.run(None, feed)[0]
    if abs(expected - found).max() > 1e-3 * max(1, abs(expected).max()):
        fail("ONNX Runtime gives other values than PyTorch")
    return lambda: session.run(None, feed)


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
    return statistics.median(once(calls) for _ in range(repetitions)) / getattr(call, "operations", 1)


def run_heddle(options, arguments):
    command = [options.heddle, "bench", options.family, "--json", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        fail(f"{options.heddle}: {error.strerror}; --heddle names the program")
    if done.returncode != 0:
        fail(f"{' '.join(command)}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def compare(torch, options, case, dtype, calls):
    """Seconds of each contender, one entry a round."""
    rounds = {name: [] for name in ("heddle", *calls)}
    target = ["--device", options.device] if options.device else []
    for _ in range(options.rounds):
        rows = run_heddle(options, ["--cases", case, "--dtype", dtype, "--repetitions", str(options.repetitions), *target])
        rounds["heddle"].append(rows[0]["seconds"])
        for name, call in calls.items():
            rounds[name].append(measure(torch, call, options.repetitions, options.torch_device))
    return rounds, rows[0]["device"]


def contenders(torch, options, call):
    if not call:
        return {}
    calls = {"eager": call}
    if options.compile:
        ways = call.compiled() if hasattr(call, "compiled") else [torch.compile(call)]
        calls["compile"] = min(ways, key=lambda way: measure(torch, way, 10, options.torch_device))
    if options.onnx and hasattr(call, "onnx"):
        calls["onnx"] = call.onnx(options.threads)
    return calls


def report(options, family, case, dtype, device, rounds):
    medians = {name: statistics.median(values) for name, values in rounds.items()}
    ratios = {name: [theirs / ours for theirs, ours in zip(rounds[name], rounds["heddle"])] for name in rounds if name != "heddle"}
    if options.json:
        print(json.dumps({"bench": family, "case": case, "dtype": dtype, "device": device, "seconds": medians,
                          "ratios": {name: {"median": statistics.median(r), "low": min(r), "high": max(r)} for name, r in ratios.items()}}), flush=True)
        return
    line = f"{family + ' ' + case + ' ' + dtype:<40} {device:<10} {medians['heddle'] * 1e6:>11.1f}"
    for name, r in ratios.items():
        line += f"  {name} {medians[name] * 1e6:.1f}: {statistics.median(r):.2f} ({min(r):.2f}-{max(r):.2f})"
    print(line, flush=True)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", help="a family of heddle bench: step, dispatch, matmul, ...")
    parser.add_argument("--cases", help="sizes, separated by commas; default: heddle bench's own list")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--heddle", default="heddle", help="the program; default: the one on the PATH")
    parser.add_argument("--device", help="Heddle's device")
    parser.add_argument("--torch-device", default="cpu", help="PyTorch's device: cpu or cuda")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="PyTorch's threads; default: all cores")
    parser.add_argument("--compile", action="store_true", help="torch.compile as well (needs a C++ compiler)")
    parser.add_argument("--onnx", action="store_true", help="ONNX Runtime as well, where the case is a model's forward pass")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=15, help="in each round")
    parser.add_argument("--json", action="store_true", help="print lines of JSON instead of a table")
    options = parser.parse_args()
    if options.repetitions < 10 or options.rounds < 1:
        fail(f"{options.rounds} rounds of {options.repetitions} repetitions, expected at least one of 10")
    return options


def main():
    options = parse_options()
    try:
        import torch
    except ImportError as error:
        fail(f"PyTorch cannot be imported ({error}); install it, e.g. pip install torch")
    torch.set_num_threads(options.threads)
    torch.backends.cudnn.allow_tf32 = False  # f32 is f32 on both sides
    if options.torch_device.startswith("cuda") and not torch.cuda.is_available():
        fail("PyTorch sees no CUDA device")
    rows = run_heddle(options, ["--list", "--dtype", options.dtype, *(["--cases", options.cases] if options.cases else [])])
    cases = Cases(torch, options.torch_device)
    if not options.json:
        print(f"PyTorch {torch.__version__} on {options.torch_device}, {options.threads} threads; microseconds, "
              f"then PyTorch / Heddle (range over {options.rounds} rounds)")
    for row in rows:
        calls = contenders(torch, options, cases.find(row["bench"], row["case"], row["dtype"]))
        rounds, device = compare(torch, options, row["case"], row["dtype"], calls)
        report(options, row["bench"], row["case"], row["dtype"], device, rounds)


if __name__ == "__main__":
    main()
