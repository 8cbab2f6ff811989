#!/usr/bin/env python3
"""Data-parallel training on two ranks beside two processes that train alone on half of each batch, each on one core.

  bench/ranks_compare.py --heddle build/release/bin/heddle [--device opencl:0] [--rounds 5]
      [--cases mnist-mlp:128:1500 mnist-cnn:64:300 char-gpt:12:60]

A case is RECIPE:BATCH:STEPS. A round runs, in turns, two processes at once, each bound to a core, with half of the
batch; the two ranks of `heddle launch -n 2` with the whole one; and one process alone. Printed are medians of samples
per second, and of the rounds the median, least and greatest ratio of the ranks to the two processes. Beside it stands
what the machine takes: what two processes get of twice one process alone (they share caches and memory), and the share
of a step that is left where the bytes of its gradients are only copied, four times over (out of one process, into the
other, and both ways back). Two processors are needed. Exit code: 0; 2 with one line when something is missing.
"""
import argparse
import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

COPIES = 4


def fail(text):
    print(f"ranks_compare: {text}", file=sys.stderr)
    sys.exit(2)


def done_line(text, command):
    for line in text.splitlines():
        if line.startswith('{"') and '"event":"done"' in line:
            return json.loads(line)
    fail(f"{' '.join(command)} gave no result")


class Case:
    def __init__(self, text, options):
        parts = text.split(":")
        if len(parts) != 3 or not parts[1].isdigit() or not parts[2].isdigit():
            fail(f"'{text}' is no case; one is written as mnist-mlp:128:1500")
        self.recipe, self.batch, self.steps = parts[0], int(parts[1]), int(parts[2])
        self.options = options

    def words(self, batch, out):
        return ["train", self.recipe, "--batch", str(batch), "--steps", str(self.steps), "--json", "--out", str(out),
                "--device", self.options.device, "--limit-test", "64", "--set", "log.eval_every=100000000",
                "--set", "checkpoint.every=100000000"]

    def start_alone(self, core, folder):
        one = {"POCL_MAX_PTHREAD_COUNT": "1", "POCL_CPU_MAX_CU_COUNT": "1", "LP_NUM_THREADS": "1"}
        command = ["taskset", "-c", str(core), self.options.heddle] + self.words(self.batch // 2, folder / f"{core}")
        return command, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                         env={**os.environ, **one})

    def alone(self, cores, folder):
        started = [self.start_alone(core, folder) for core in cores]
        lines = [done_line(process.communicate()[0], command) for command, process in started]
        return [line["samples_per_second"] for line in lines]

    def ranks(self, folder):
        command = [self.options.heddle, "launch", "-n", "2", "--"] + self.words(self.batch, folder / "ranks")
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if run.returncode != 0:
            fail(run.stderr.strip().splitlines()[-1] if run.stderr.strip() else f"exit code {run.returncode}")
        return done_line(run.stdout, command)


def copy_seconds(count):
    source, target = ctypes.create_string_buffer(count), ctypes.create_string_buffer(count)
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        ctypes.memmove(target, source, count)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(case, options, folder):
    cores = sorted(os.sched_getaffinity(0))[:2]
    pairs, shared, single, lines = [], [], [], []
    for number in range(options.rounds):
        for kind in ("pair", "ranks", "single"):
            here = folder / f"{case.recipe}-{number}-{kind}"
            here.mkdir()
            if kind == "pair":
                pairs.append(sum(case.alone(cores, here)))
            elif kind == "ranks":
                lines.append(case.ranks(here))
                shared.append(lines[-1]["samples_per_second"])
            else:
                single.append(case.alone(cores[:1], here)[0])
            shutil.rmtree(here)
    ratios = [b / a for a, b in zip(pairs, shared)]
    pair, one = statistics.median(pairs), statistics.median(single)
    sent = lines[0]["bytes_sent_per_step"]
    step = case.batch / pair
    limit = step / (step + COPIES * copy_seconds(max(1, sent // 2)))
    print(f"{case.recipe} {case.batch}, {case.steps} steps, {options.rounds} rounds: ranks {statistics.median(shared):.0f}"
          f" samples/s, two processes {pair:.0f}; ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to"
          f" {max(ratios):.3f}); {sent} bytes a step, hidden {statistics.median(l['communication_hidden'] for l in lines):.2f};"
          f" machine: two processes {pair / (2 * one):.3f} of twice one, copies leave {limit:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", default=["mnist-mlp:128:1500", "mnist-cnn:64:300", "char-gpt:12:60"])
    options = parser.parse_args()
    options.heddle = str(pathlib.Path(options.heddle).resolve())
    if not os.access(options.heddle, os.X_OK):
        fail(f"{options.heddle} is not there")
    if shutil.which("mpirun") is None or shutil.which("taskset") is None:
        fail("mpirun or taskset is not installed: skipped")
    if len(os.sched_getaffinity(0)) < 2:
        fail("two processors are needed: skipped")
    if options.rounds < 1:
        fail(f"{options.rounds} rounds; there must be one at least")
    with tempfile.TemporaryDirectory() as folder:
        for text in options.cases:
            measure(Case(text, options), options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
