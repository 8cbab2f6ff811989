#!/usr/bin/env python3
"""`heddle finetune` beside PEFT on the same model, the same rows and the same first adapters.

  bench/get_peers.sh finetune
  $HEDDLE_PEERS/venv/bin/python bench/finetune_compare.py --heddle build/release/bin/heddle --model smollm2.gguf
      --device opencl:0 [--steps 20] [--length 256] [--batch 4] [--method lora]

The data is a text (this project's pages, --text for another) of as many rows as a batch has, so that both sides see the
same tokens in each step. Heddle trains twice: once with a rate of nothing, whose adapters PEFT begins with, and once as
it is to be measured. PEFT has the weights that transformers reads from the same GGUF file, in f32, AdamW, the same
schedule and clipping. Printed are both losses of each step, the largest relative difference, tokens a second of both
without the first steps, and the memory of both: of Heddle's device, and of PyTorch's process beyond its imports. Exit
code: 0; 1 where losses differ by more than 1e-3; 2 with one line when something is missing.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def fail(text):
    print(f"finetune_compare: {text}", file=sys.stderr)
    sys.exit(2)


try:
    import torch
    import transformers
    from peft import PeftModel
except ImportError as error:
    fail(f"{error.name} is not here (bench/get_peers.sh finetune, and its venv's python): skipped")

BOUND = 1e-3


def heddle(given, text, out, lr, steps):
    command = [given.heddle, "finetune", given.model, "--data", text, "--method", given.method, "--length",
               str(given.length), "--batch", str(given.batch), "--limit-train", str(given.batch), "--steps", str(steps),
               "--lr", str(lr), "--rank", "8", "--alpha", "16", "--schedule", "constant", "--warmup", "0", "--limit-test",
               "1", "--eval-every", str(steps), "--seed", "1", "--out", out, "--json"]
    command += ["--device", given.device] if given.device else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if line["event"] == "step"], lines[-1]


def rows_of(given, text):
    model = pathlib.Path(given.model)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"][: given.batch * given.length + 1]
    if len(tokens) <= given.batch * given.length:
        fail(f"the text has {len(tokens)} tokens, fewer than a batch; give a longer --text")
    block = torch.tensor(tokens)
    return block[:-1].view(given.batch, given.length), block[1:].view(given.batch, given.length)


def peft(given, text, adapter):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = pathlib.Path(given.model)
    base = transformers.AutoModelForCausalLM.from_pretrained(model.parent, gguf_file=model.name, dtype=torch.float32)
    tuned = PeftModel.from_pretrained(base, adapter, is_trainable=True)
    tuned.train()
    trained = [p for p in tuned.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=given.lr, weight_decay=0.0)
    tokens, targets = rows_of(given, text)
    losses, seconds = [], []
    for _ in range(given.steps):
        begin = time.monotonic()
        logits = tuned(input_ids=tokens).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.monotonic() - begin)
    return losses, seconds, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def compare(given):
    pages = sorted((pathlib.Path(__file__).parent.parent / "docs").glob("*.md"))
    text = pathlib.Path(given.text).read_text() if given.text else "".join(page.read_text() for page in pages)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "text.txt")
        pathlib.Path(file).write_text(text)
        heddle(given, file, os.path.join(folder, "first"), 1e-30, 1)
        steps, done = heddle(given, file, os.path.join(folder, "run"), given.lr, given.steps)
        losses, seconds, memory = peft(given, text, os.path.join(folder, "first", "adapter"))
    worst = 0.0
    for step, theirs in zip(steps, losses):
        worst = max(worst, abs(step["loss"] - theirs) / theirs)
        print(f"step {step['step']:3}  Heddle {step['loss']:.5f}  PEFT {theirs:.5f}")
    tokens = given.batch * given.length
    ours = statistics.median(step["tokens_per_second"] for step in steps[2:])
    theirs = tokens / statistics.median(seconds[2:])
    print(f"largest relative difference {worst:.2e}")
    print(f"tokens/s: Heddle {ours:.0f}, PEFT f32 {theirs:.0f}, ratio {ours / theirs:.2f}")
    print(f"memory: Heddle {done['peak_device_bytes'] / 2**20:.0f} MiB, PEFT {memory / 2**20:.0f} MiB, "
          f"ratio {done['peak_device_bytes'] / memory:.2f}")
    return 0 if worst <= BOUND else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--device", default="")
    parser.add_argument("--text")
    parser.add_argument("--method", default="lora", choices=("lora", "qlora"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    sys.exit(compare(given))


if __name__ == "__main__":
    main()
