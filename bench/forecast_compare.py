#!/usr/bin/env python3
"""Forecasts of `heddle plan --mesh dp=N` beside what ranks report: bytes, memory and time of a step, over some links.

  bench/forecast_compare.py --heddle build/release/bin/heddle [--device opencl:0] [--ranks 2 4] [--links memory]
      [--cases mnist-mlp:64 mnist-cnn:32] [--sharding none] [--steps 40] [--bandwidth 2e9] [--latency 50e-6]
      [--measured FILE]

A link is "memory", messages between processes of this machine, or a rate as tc writes it (200mbit), between two network
namespaces with half of the ranks each (tools/train_over.sh; root). Bytes have to be equal. Memory: the peak of the
first rank's allocator, without evaluation of more than 8 examples (16 over a rate); 5 %. Time: the median of updates,
15 %, on a machine that does nothing else. The machine's efficiency is the one with which the forecast of one rank is
the median of one process, bound to a core, with its share of the batch; ranks that share a core share its speed.
--bandwidth is that of messages between two ranks of this machine. The latency of a link is the one with which the
forecast of the first case over it, on the first number of ranks, is its measurement, so that case is none; --latency
says it instead. Exit code: 0; 1 when bytes, memory or time differ by more; 2 with one line when something is missing.
Vocabularies of language models follow their text: char-gpt gets one of 65 characters, as the plan has.
"""
import argparse
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

MACHINE = """[machine]
flops_f32 = 1e12
memory = 1e12
memory_bandwidth = {memory_bandwidth}
efficiency = {efficiency}
half_size = 8
"""
LEVEL = """[level.{name}]
bandwidth = {bandwidth}
latency = {latency}
"""
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
PAYLOAD = 1448 / 1514  # of a frame over TCP with time stamps
QUESTION = 208  # bytes in which two ranks ask each other in the first update whether they share memory


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
    fail(f"a run gave no result: {text.strip()}")


def bytes_of_rate(link):
    for unit, size in UNITS.items():
        if link.endswith(unit) and link[:-len(unit)].isdigit():
            return int(link[:-len(unit)]) * size / 8 * PAYLOAD
    fail(f"'{link}' is no link; one is memory, or a rate as 200mbit")


# The x from low to high at which a function that is straight, or nearly so, is the value; its own end beyond.
def solve(function, value, low, high):
    at_low, at_high = function(low), function(high)
    for _ in range(4):
        if at_high == at_low:
            break
        x = min(max(low + (value - at_low) * (high - low) / (at_high - at_low), 0.0), high)
        at_x = function(x)
        if abs(at_x - value) < 1e-3 * value:
            return x
        low, at_low = x, at_x
    return low


class Comparison:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)
        self.text = self.folder / "text.txt"
        characters = [chr(33 + i) for i in range(64)] + ["\n"]
        self.text.write_text("".join(characters) + "".join(random.Random(1).choices(characters, k=200_000)))
        self.cores = len(os.sched_getaffinity(0))
        self.latencies = {}  # by link
        kept = pathlib.Path(options.measured) if options.measured else None
        self.kept = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}

    def words(self, recipe, batch, steps, sharding):
        data = ["--data", str(self.text)] if recipe.startswith("char-") else []
        return [recipe, "--batch", str(batch), "--steps", str(steps), "--sharding", sharding] + data

    def clear(self):
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        return str(self.folder / "run")

    def alone(self, recipe, batch):
        bound = ["taskset", "-c", "0"] if shutil.which("taskset") else []
        one = {"POCL_MAX_PTHREAD_COUNT": "1", "POCL_CPU_MAX_CU_COUNT": "1", "LP_NUM_THREADS": "1"}
        words = self.words(recipe, batch, self.options.steps, "none")
        command = bound + [self.options.heddle, "train"] + words + [
            "--limit-test", "8", "--json", "--out", self.clear(), "--device", self.options.device]
        return done_line(output_of(command, dict(os.environ, **one)))

    def together(self, recipe, batch, ranks, link, sharding):
        environment = dict(os.environ, HEDDLE_DEVICE=self.options.device, DEVICE=self.options.device,
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", HEDDLE_SHARED_LISTS="0")
        words = self.words(recipe, batch, 2 * self.options.steps, sharding)
        if link == "memory":
            command = [self.options.heddle, "launch", "-n", str(ranks), "--", "train"] + words + [
                "--limit-test", "8", "--json", "--out", self.clear()]
        else:
            script = pathlib.Path(__file__).resolve().parent.parent / "tools/train_over.sh"
            command = [str(script), link, str(ranks), self.clear()] + words
        return done_line(output_of(command, environment))

    def plan(self, recipe, batch, ranks, link, sharding, efficiency, latency=0.0, device=()):
        o = self.options
        sharers = max(1, math.ceil(ranks / self.cores))
        text = MACHINE.format(efficiency=efficiency / sharers, memory_bandwidth=o.memory_bandwidth / sharers)
        if link != "memory" and ranks > 2:
            text += LEVEL.format(name="host", bandwidth=o.bandwidth, latency=self.latencies.get("memory", 0.0))
            text += f"ranks = {ranks // 2}\n"
        rate = o.bandwidth if link == "memory" else bytes_of_rate(link)
        path = self.folder / "link.toml"
        path.write_text(text + LEVEL.format(name="all", bandwidth=rate, latency=latency))
        return json.loads(output_of([o.heddle, "plan", recipe, "--mesh", f"dp={ranks}", "--batch", str(batch),
                                     "--link", str(path), "--sharding", sharding, "--json", *device]))

    # Seconds are a part without products and one that its inverse multiplies.
    def efficiency(self, recipe, batch, seconds):
        forecast = lambda inverse: self.plan(recipe, batch, 1, "memory", "none", 1 / inverse)["step_seconds"]
        return 1 / max(solve(forecast, seconds, 1.0, 1000.0), 1.0)

    # Whether the link's latency was fitted here.
    def fits_latency(self, recipe, batch, ranks, link, sharding, efficiency, seconds):
        if link in self.latencies:
            return False
        if self.options.latency is not None:
            self.latencies[link] = self.options.latency
            return False
        forecast = lambda x: self.plan(recipe, batch, ranks, link, sharding, efficiency, x)["step_seconds"]
        self.latencies[link] = solve(forecast, seconds, 0.0, 0.1)
        return True

    # What is in the file of measurements is not measured again.
    def measured(self, recipe, batch, ranks=1, link="memory", sharding="none"):
        name = f"{recipe}:{batch} {ranks} {link} {sharding} {self.options.steps}"
        if name not in self.kept:
            self.kept[name] = (self.alone(recipe, batch) if ranks == 1
                               else self.together(recipe, batch, ranks, link, sharding))
            if self.options.measured:
                pathlib.Path(self.options.measured).write_text(json.dumps(self.kept))
        return self.kept[name]

    def compare(self, recipe, batch, ranks, link, sharding):
        alone = self.measured(recipe, batch // ranks)
        together = self.measured(recipe, batch, ranks, link, sharding)
        efficiency = self.efficiency(recipe, batch // ranks, alone["median_step_ms"] * 1e-3)
        fitted = self.fits_latency(recipe, batch, ranks, link, sharding, efficiency, together["median_step_ms"] * 1e-3)
        made = self.plan(recipe, batch, ranks, link, sharding, efficiency, self.latencies[link],
                         ("--device", self.options.device))
        sent, measured = together["bytes_sent_per_step"], together["median_step_ms"]
        memory = made["memory_bytes"]["peak"] / together["peak_device_bytes"]
        time = made["step_seconds"] / (measured * 1e-3)
        asked = QUESTION / (2 * self.options.steps)
        exact = abs(sent - asked - made["bytes_per_step"]) <= 1  # rounded down to a whole number of bytes
        print(f"{recipe} of {batch} on {ranks}, {sharding}, {link}: bytes {made['bytes_per_step']} forecast,"
              f" {sent} sent ({'equal' if exact else 'DIFFERENT'}); memory {memory:.3f};"
              f" alone {alone['median_step_ms']:.3f} ms, forecast {made['step_seconds'] * 1e3:.3f} ms,"
              f" measured {measured:.3f} ms: time {time:.2f}"
              + (f" (fitted: a latency of {self.latencies[link] * 1e6:.0f} us)" if fitted else ""), flush=True)
        return exact and abs(memory - 1) <= 0.05 and abs(time - 1) <= 0.15


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--links", nargs="+", default=["memory"])
    parser.add_argument("--sharding", nargs="+", default=["none"])
    parser.add_argument("--cases", nargs="+", default=["mnist-mlp:64", "mnist-cnn:32"])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--bandwidth", type=float, default=2e9)
    parser.add_argument("--latency", type=float)
    parser.add_argument("--measured", help="file that measurements are kept in")
    parser.add_argument("--memory-bandwidth", type=float, default=10e9)
    options = parser.parse_args()
    if not os.access(options.heddle, os.X_OK):
        fail(f"{options.heddle} is no program")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, folder)
        cases = [(recipe, int(batch), ranks, link, sharding) for link in options.links for sharding in options.sharding
                 for ranks in options.ranks for recipe, _, batch in (case.partition(":") for case in options.cases)]
        for case in cases:
            comparison.measured(case[0], case[1] // case[2])
            comparison.measured(*case)
        for case in cases:
            good = comparison.compare(*case) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
