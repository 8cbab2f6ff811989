#!/usr/bin/env python3
"""Forecasts of `heddle plan --mesh dp=N` beside what `heddle launch -n N` reports: bytes, memory and time of a step.

  bench/forecast_compare.py --heddle build/release/bin/heddle [--device opencl:0] [--ranks 2 4]
      [--cases mnist-mlp:64 mnist-cnn:32] [--steps 40] [--bandwidth 2e9 --latency 50e-6]

Bytes: two runs, of STEPS and of twice as many, tell those of a step from those of a run's beginning and end; they have
to be equal. Memory: the peak of the first rank's allocator, without evaluation of more than 8 examples; 5 %. Time: the
machine's efficiency is the one with which the forecast of one rank is the median of one process, bound to a core, with
its share of the batch; 15 %, on a machine that does nothing else and has a core for each rank. --bandwidth and --latency
are those of messages between two ranks of this machine. Exit code: 0; 1 when bytes or memory differ by more; 2 with one
line when something is missing. Vocabularies of language models follow their text, so char-gpt is none of the cases.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

LINK = """[machine]
flops_f32 = 1e12
memory = 1e12
memory_bandwidth = {memory_bandwidth}
efficiency = {efficiency}
half_size = 8
[level.host]
bandwidth = {bandwidth}
latency = {latency}
"""


def fail(text):
    print(f"forecast_compare: {text}", file=sys.stderr)
    sys.exit(2)


def output_of(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def done_line(text):
    for line in text.splitlines():
        if line.startswith('{"event":"done"'):
            return json.loads(line)
    fail("a run gave no result")


def run(options, folder, recipe, batch, steps, ranks):
    out = pathlib.Path(folder) / "run"
    shutil.rmtree(out, ignore_errors=True)
    training = ["train", recipe, "--batch", str(batch), "--steps", str(steps), "--limit-test", "8", "--json", "--out", str(out)]
    if ranks == 1:
        bound = ["taskset", "-c", "0"] if shutil.which("taskset") else []
        return done_line(output_of(bound + [options.heddle] + training + ["--device", options.device]))
    environment = dict(os.environ, HEDDLE_DEVICE=options.device, OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launch = [options.heddle, "launch", "-n", str(ranks), "--"]
    return done_line(output_of(launch + training, environment))


def plan(options, folder, recipe, batch, ranks, efficiency):
    link = pathlib.Path(folder) / "link.toml"
    link.write_text(LINK.format(efficiency=efficiency, memory_bandwidth=options.memory_bandwidth,
                                bandwidth=options.bandwidth, latency=options.latency))
    return json.loads(output_of([options.heddle, "plan", recipe, "--mesh", f"dp={ranks}", "--batch", str(batch),
                                 "--device", options.device, "--link", str(link), "--no-overlap", "--json"]))


def fit(options, folder, recipe, batch, seconds):
    low, high = 1e-6, 1.0
    for _ in range(30):
        middle = (low * high) ** 0.5
        slower = plan(options, folder, recipe, batch, 1, middle)["step_seconds"] > seconds
        low, high = (middle, high) if slower else (low, middle)
    return low


def compare(options, folder, recipe, batch, ranks):
    together = run(options, folder, recipe, batch, 2 * options.steps, ranks)
    alone = run(options, folder, recipe, batch // ranks, options.steps, 1)
    efficiency = fit(options, folder, recipe, batch // ranks, alone["median_step_ms"] * 1e-3)
    made = plan(options, folder, recipe, batch, ranks, efficiency)
    sent = together["bytes_sent_per_step"]
    memory = made["memory_bytes"]["peak"] / together["peak_device_bytes"]
    time = made["step_seconds"] / (together["median_step_ms"] * 1e-3)
    exact = abs(sent - made["bytes_per_step"]) <= 1  # rounded down to a whole number of bytes
    print(f"{recipe} of {batch} on {ranks}: bytes {made['bytes_per_step']} forecast, {sent} sent"
          f" ({'equal' if exact else 'DIFFERENT'}); memory {memory:.3f}; time {time:.2f}", flush=True)
    return exact and abs(memory - 1) <= 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--cases", nargs="+", default=["mnist-mlp:64", "mnist-cnn:32"])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--bandwidth", type=float, default=2e9)
    parser.add_argument("--latency", type=float, default=50e-6)
    parser.add_argument("--memory-bandwidth", type=float, default=10e9)
    options = parser.parse_args()
    if not os.access(options.heddle, os.X_OK):
        fail(f"{options.heddle} is no program")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            recipe, _, batch = case.partition(":")
            for ranks in options.ranks:
                good = compare(options, folder, recipe, int(batch), ranks) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
