#!/usr/bin/env python3
"""`heddle finetune` beside PEFT on the same model, the same rows and the same first adapters.

  bench/get_peers.sh finetune
  $HEDDLE_PEERS/venv/bin/python bench/finetune_compare.py --heddle build/release/bin/heddle --model smollm2.gguf
      --device opencl:0 [--steps 20] [--length 256] [--batch 4] [--method lora] [--rounds 1] [--bf16]
      [--precision bf16] [--torch-device cuda]

The data is a text (this project's pages, --text for another) of as many rows as a batch has, so that both sides see the
same tokens in each step. Heddle trains twice: once with a rate of nothing, whose adapters PEFT begins with, and once as
it is to be measured. PEFT has the weights that transformers reads from the same GGUF file, in f32, AdamW, the same
schedule and clipping. Printed are both losses of each step, the largest relative difference, tokens a second of both
without the first steps, and the memory of both: of Heddle's device, and of PyTorch's process beyond its imports, or on
a GPU of its allocator. Exit code: 0; 1 where losses differ by more than 1e-3; 2 with one line when something is missing.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
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

FIRST, FIRST_BOUND, LAST_BOUND = 20, 1e-3, 1e-2


def heddle(given, text, out, lr, steps):
    command = [given.heddle, "finetune", given.model, "--data", text, "--method", given.method, "--length",
               str(given.length), "--batch", str(given.batch), "--limit-train", str(given.batch), "--steps", str(steps),
               "--lr", str(lr), "--rank", "8", "--alpha", "16", "--schedule", "constant", "--warmup", "0", "--limit-test",
               "1", "--eval-every", str(steps), "--seed", "1", "--out", out, "--json"]
    command += ["--device", given.device] if given.device else []
    command += ["--precision", given.precision]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if line["event"] == "step"], lines[-1]


def source(given):
    """Arguments of transformers' from_pretrained: a folder, or a GGUF file in one."""
    model = pathlib.Path(given.model)
    return ([model], {}) if model.is_dir() else ([model.parent], {"gguf_file": model.name})


def rows_of(given, text):
    place, names = source(given)
    tokenizer = transformers.AutoTokenizer.from_pretrained(*place, **names)
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"][: given.batch * given.length + 1]
    if len(tokens) <= given.batch * given.length:
        fail(f"the text has {len(tokens)} tokens, fewer than a batch; give a longer --text")
    block = torch.tensor(tokens, device=given.torch_device)
    return block[:-1].view(given.batch, given.length), block[1:].view(given.batch, given.length)


def peft(given, text, adapter, bf16):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    place, names = source(given)
    base = transformers.AutoModelForCausalLM.from_pretrained(*place, **names, dtype=torch.float32)
    tuned = PeftModel.from_pretrained(base, adapter, is_trainable=True).to(given.torch_device)
    tuned.train()
    trained = [p for p in tuned.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=given.lr, weight_decay=0.0)
    tokens, targets = rows_of(given, text)
    losses, seconds = [], []
    for _ in range(given.steps):
        begin = time.monotonic()
        with torch.autocast(given.torch_device, torch.bfloat16, enabled=bf16):
            logits = tuned(input_ids=tokens).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.monotonic() - begin)
    if given.torch_device == "cuda":
        return losses, seconds, torch.cuda.max_memory_allocated()
    return losses, seconds, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def speed(given, seconds):
    return given.batch * given.length / statistics.median(seconds[2:])


def one_round(given, text, file, folder):
    steps, done = heddle(given, file, os.path.join(folder, "run"), given.lr, given.steps)
    adapter = os.path.join(folder, "first", "adapter")
    losses, seconds, memory = peft(given, text, adapter, bf16=False)
    speeds = {"Heddle": statistics.median(step["tokens_per_second"] for step in steps[2:]),
              "PEFT f32": speed(given, seconds)}
    if given.bf16:
        speeds["PEFT bf16"] = speed(given, peft(given, text, adapter, bf16=True)[1])
    return [step["loss"] for step in steps], losses, speeds, done["peak_device_bytes"], memory


def differences(ours, theirs):
    each = [abs(a - b) / b for a, b in zip(ours, theirs)]
    for step, (a, b) in enumerate(zip(ours, theirs), start=1):
        print(f"step {step:3}  Heddle {a:.5f}  PEFT {b:.5f}")
    worst, last = max(each[:FIRST]), each[-1]
    print(f"largest relative difference of the first {FIRST} losses {worst:.2e}, of the last loss {last:.2e}")
    return worst <= FIRST_BOUND and last <= LAST_BOUND


def compare(given):
    pages = sorted((pathlib.Path(__file__).parent.parent / "docs").glob("*.md"))
    text = pathlib.Path(given.text).read_text() if given.text else "".join(page.read_text() for page in pages)
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "text.txt")
        pathlib.Path(file).write_text(text)
        heddle(given, file, os.path.join(folder, "first"), 1e-30, 1)
        for number in range(given.rounds):
            made = one_round(given, text, file, folder)
            shutil.rmtree(os.path.join(folder, "run"))
            rounds.append(made)
            speeds = ", ".join(f"{name} {value:.0f} tokens/s" for name, value in made[2].items())
            print(f"round {number + 1}: {speeds}", flush=True)
    held = differences(*rounds[0][:2])
    for peer in list(rounds[0][2])[1:]:
        ratios = [made[2]["Heddle"] / made[2][peer] for made in rounds]
        print(f"speed over {peer}: median {statistics.median(ratios):.2f} of {min(ratios):.2f} to {max(ratios):.2f}")
    ours, theirs = rounds[0][3:]  # later rounds find memory that PyTorch kept
    print(f"memory: Heddle {ours / 2**20:.0f} MiB, PEFT f32 {theirs / 2**20:.0f} MiB, ratio {ours / theirs:.2f}")
    return 0 if held else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--model", required=True, help="a GGUF file or a folder of Hugging Face")
    parser.add_argument("--device", default="")
    parser.add_argument("--text")
    parser.add_argument("--method", default="lora", choices=("lora", "qlora"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bf16", action="store_true", help="PEFT under autocast to bf16 as well")
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16", "f16"), help="of Heddle's products")
    parser.add_argument("--torch-device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    sys.exit(compare(given))


if __name__ == "__main__":
    main()
