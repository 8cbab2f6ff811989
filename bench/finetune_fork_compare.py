#!/usr/bin/env python3
"""`heddle finetune` beside llama-finetune-lora of qvac-fabric-llm.cpp, the fork of llama.cpp that trains adapters.

  cmake -S qvac-fabric-llm.cpp -B qvac [-DGGML_VULKAN=ON] && cmake --build qvac --target llama-finetune-lora
  python3 bench/finetune_fork_compare.py --fork qvac/bin/llama-finetune-lora [--gpu] --model smollm2.gguf
      --heddle build/release/bin/heddle --device opencl:0 [--rounds 3] [--steps 6] [--length 256] [--batch 4]

Both train adapters of rank 8 beside the attention's four projections, on the same text in rows of the same length: the
fork a row a step, which is all it knows, Heddle a batch. --gpu gives the fork all of its layers on the first Vulkan
device, a driver on the CPU included; without it the fork computes on the CPU. A round is one run of each, in turn; a
run's speed is the median over its steps but the first two. Exit code: 0; 2 with one line when something is missing, the
fork's Vulkan device among it.

Mesa 22.3's lavapipe (Debian 12) is corrupted by the fork's first step; Mesa 25.0 (Debian 13) runs it.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WARM = 2


def fail(text):
    print(f"finetune_fork_compare: {text}", file=sys.stderr)
    sys.exit(2)


def heddle(given, text, folder):
    shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)
    command = [given.heddle, "finetune", given.model, "--data", text, "--length", str(given.length),
               "--batch", str(given.batch), "--limit-train", str(given.batch), "--limit-test", "1",
               "--steps", str(given.steps + WARM), "--rank", "8", "--lr", "1e-5", "--schedule", "constant",
               "--out", os.path.join(folder, "run"), "--json", "--method", given.method]
    command += ["--device", given.device] if given.device else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    steps = [line for line in lines if line["event"] == "step"]
    return statistics.median(step["tokens_per_second"] for step in steps[WARM:]), lines[-1]["peak_device_bytes"]


def fork(given, text, folder):
    length = str(given.length)
    command = [given.fork, "-m", given.model, "-f", text, "-c", length, "-b", length, "-ub", length, "-fa", "off",
               "--lora-rank", "8", "--output-adapter", os.path.join(folder, "fork.gguf"),
               "-t", str(given.threads), "-ngl", "999" if given.gpu else "0"]
    # The fork leaves drivers on the CPU out and then trains on the CPU without a word, unless a device is named.
    variables = {**os.environ, "GGML_VK_VISIBLE_DEVICES": "0"} if given.gpu else None
    moments = []
    with open(os.path.join(folder, "fork.log"), "wb") as log:
        run = subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE, cwd=folder, env=variables)
        seen, shown = 0, b""
        while len(moments) < given.steps + WARM + 1:
            some = os.read(run.stderr.fileno(), 65536)
            if not some:
                break
            log.write(some)
            shown = (shown + some)[-1 << 20:]
            found = re.findall(rb"train:[^\r\n]*data=0*(\d+)/", shown)
            if found and int(found[-1]) > seen:
                seen = int(found[-1])
                moments.append(time.monotonic())
        run.kill()
        run.wait()
    shown = pathlib.Path(folder, "fork.log").read_bytes()
    if given.gpu and b"using device Vulkan" not in shown:
        fail(f"{given.fork} found no Vulkan device")
    if len(moments) < given.steps + WARM + 1:
        tail = shown[-600:].decode(errors="replace")
        fail(f"{given.fork} ended after {len(moments)} steps: {tail}")
    return given.length / statistics.median(b - a for a, b in zip(moments[WARM:], moments[WARM + 1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--fork", required=True, help="its program llama-finetune-lora")
    parser.add_argument("--gpu", action="store_true", help="the fork computes on its Vulkan device")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--device", default="")
    parser.add_argument("--method", default="lora", choices=("lora", "qlora"))
    parser.add_argument("--text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    for name in ("heddle", "fork", "model"):
        if not os.path.exists(getattr(given, name)):
            fail(f"{getattr(given, name)} is not here: skipped")
        setattr(given, name, os.path.abspath(getattr(given, name)))
    pages = sorted((pathlib.Path(__file__).parent.parent / "docs").glob("*.md"))
    text = pathlib.Path(given.text).read_text() if given.text else "".join(page.read_text() for page in pages)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "text.txt")
        pathlib.Path(file).write_text(text[: 8 * given.length * max(given.batch, given.steps + WARM + 2) + 4096])
        for number in range(given.rounds):
            ours, bytes_used = heddle(given, file, folder)
            theirs = fork(given, file, folder)
            ratios.append(ours / theirs)
            print(f"round {number + 1}: Heddle {ours:.0f} tokens/s, peak {bytes_used / 2**20:.0f} MiB; "
                  f"fork {theirs:.0f} tokens/s; ratio {ratios[-1]:.2f}", flush=True)
    print(f"speed over the fork: median {statistics.median(ratios):.2f} of {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
