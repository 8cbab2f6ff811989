#!/usr/bin/env python3
"""Forecasts of `heddle plan --mesh` beside what ranks report: bytes, memory and time of a step, over some links.

  bench/forecast_compare.py --heddle build/release/bin/heddle [--device opencl:0] [--meshes dp=2 tp=2] [--links memory]
      [--cases mnist-mlp:64 mnist-cnn:32] [--sharding none] [--microbatches 4] [--steps 60] [--without-time]
      [--bandwidth 2e9] [--latency 50e-6] [--cut 1e-3] [--measured FILE]

A link is "memory", messages between processes of this machine, or a rate as tc writes it (200mbit), between two network
namespaces with half of the ranks each (tools/train_over.sh; root). Bytes have to be equal. Memory: the peak of the
first rank's allocator, without evaluation of more than 8 examples (16 over a rate); 5 %. Time: the median of updates,
15 %, on a machine that does nothing else; beside it the share of communication that is hidden, measured of forecast,
where gradients go beside the backward pass. The machine is a core of 50 GFLOP/s and --memory-bandwidth, times the speed
with which the forecast of one rank is the median of one process, bound to a core, with its share of the batch; ranks
that share a core share its speed, which is no forecast of a network: --without-time compares the rest. --bandwidth is
that of messages between two ranks of this machine. Processors of this machine move what goes over a rate, too, so a
rate's bandwidth and latency are those with which forecasts of vae:2, which computes little, and of the first case, on
the first mesh, are the measurements, so that the first case is none (--latency says it instead, also of memory), and a
byte takes as long of a rank's processor as at the fastest rate, 10gbit, of vae:2. What a cut of a step takes
(machine.cut) is fitted on the first case of zero2, unless --cut says it: shards come before what else cuts a step.
What recording a step takes (machine.record), which ranks with parts of a model do anew, is what `heddle bench step
--loop` takes longer than the replayed step.
Stages take --microbatches. Exit code: 0; 1 when bytes, memory or time differ by more; 2 with one line when something is
missing. Vocabularies of language models follow their text: char-gpt gets one of 65 characters, as the plan has.
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
flops_f32 = 1e13
memory = 1e12
memory_bandwidth = {memory_bandwidth}
efficiency = {efficiency}
half_size = 8
cut = {cut}
record = {record}
"""
LEVEL = """[level.{name}]
bandwidth = {bandwidth}
latency = {latency}
processor = {processor}
"""
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
PAYLOAD = 1448 / 1514  # of a frame over TCP with time stamps
EFFICIENCY = 0.005  # of that peak
FASTEST = "10gbit"
ONE_CORE = {"POCL_MAX_PTHREAD_COUNT": "1", "POCL_CPU_MAX_CU_COUNT": "1", "LP_NUM_THREADS": "1"}
PROBE = ("vae", 2)  # examples of a rank: many bytes, little computing
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


def ranks_of(mesh):
    return math.prod(int(axis.partition("=")[2]) for axis in mesh.split(","))


def size_of(mesh, name):
    return dict((axis.partition("=")[0], int(axis.partition("=")[2])) for axis in mesh.split(",")).get(name, 1)


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
        self.latencies, self.bandwidths, self.processor = {}, {"memory": options.bandwidth}, None  # by link
        self.cut = options.cut
        kept = pathlib.Path(options.measured) if options.measured else None
        self.kept = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}

    def words(self, recipe, batch, sharding, mesh):
        data = ["--data", str(self.text), "--set", "log.sample_every=1000000"] if recipe.startswith("char-") else []
        stages = ["--microbatches", str(self.options.microbatches)] if size_of(mesh, "pp") > 1 else []
        return ["--batch", str(batch), "--sharding", sharding] + stages, [recipe] + data

    def training(self, recipe, batch, sharding, mesh, steps):
        shared, own = self.words(recipe, batch, sharding, mesh)
        mesh = ["--mesh", mesh] if ranks_of(mesh) > 1 else []
        return own + shared + mesh + ["--steps", str(steps)]

    def clear(self):
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        return str(self.folder / "run")

    # Nothing is evaluated or saved before the end: what that sends is not of updates.
    def quietly(self):
        never = str(10 ** 8)
        return ["--limit-test", "8", "--eval-every", never, "--checkpoint-every", never, "--json", "--out", self.clear()]

    def alone(self, recipe, batch):
        bound = ["taskset", "-c", "0"] if shutil.which("taskset") else []
        words = self.training(recipe, batch, "none", "dp=1", self.options.steps)
        command = bound + [self.options.heddle, "train"] + words + self.quietly() + ["--device", self.options.device]
        return done_line(output_of(command, dict(os.environ, **ONE_CORE)))

    # Seconds of the host that recording a step takes: that of one process in a loop, less that of its replay.
    def recording(self, recipe, batch):
        def seconds(*how):
            bound = ["taskset", "-c", "0"] if shutil.which("taskset") else []
            command = bound + [self.options.heddle, "bench", "step", "--cases", f"{recipe}:{batch}", "--json",
                               "--device", self.options.device, *how]
            rows = output_of(command, dict(os.environ, **ONE_CORE)).splitlines()
            return next(json.loads(row)["seconds"] for row in rows if row.startswith("{"))
        return max(seconds("--loop") - seconds(), 0.0)

    def together(self, recipe, batch, mesh, link, sharding):
        environment = dict(os.environ, HEDDLE_DEVICE=self.options.device, DEVICE=self.options.device,
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", HEDDLE_SHARED_LISTS="0")
        words = self.training(recipe, batch, sharding, mesh, 2 * self.options.steps)
        if link == "memory":
            command = [self.options.heddle, "launch", "-n", str(ranks_of(mesh)), "--", "train"] + words + self.quietly()
        else:
            script = pathlib.Path(__file__).resolve().parent.parent / "tools/train_over.sh"
            command = [str(script), link, str(ranks_of(mesh)), self.clear()] + words
        return done_line(output_of(command, environment))

    def level(self, name, link, bandwidth, latency):
        processor = 1 / bandwidth if link == "memory" else min(self.processor or 0, 1 / bandwidth)
        return LEVEL.format(name=name, bandwidth=bandwidth, latency=latency, processor=processor)

    def plan(self, recipe, batch, mesh, link, sharding, speed, device=(), latency=None, cut=None, record=0.0):
        o = self.options
        cut = cut if cut is not None else self.cut or 0.0
        own = speed / max(1, math.ceil(ranks_of(mesh) / self.cores))
        text = MACHINE.format(efficiency=EFFICIENCY * own, memory_bandwidth=o.memory_bandwidth * own, cut=cut,
                              record=record)
        if link != "memory" and ranks_of(mesh) > 2:
            text += self.level("host", "memory", o.bandwidth, self.latencies.get("memory", 0.0))
            text += f"ranks = {ranks_of(mesh) // 2}\n"
        path = self.folder / "link.toml"
        path.write_text(text + self.level("all", link, self.bandwidths[link],
                                          self.latencies.get(link, 0.0) if latency is None else latency))
        shared, _ = self.words(recipe, batch, sharding, mesh)
        return json.loads(output_of([o.heddle, "plan", recipe, "--mesh", mesh, "--link", str(path), "--json",
                                     *shared, *device]).splitlines()[0])

    # Of this machine's core, with this case.
    def speed(self, recipe, batch, seconds):
        return self.plan(recipe, batch, "dp=1", "memory", "none", 1)["step_seconds"] / seconds

    # Seconds of a byte over a rate, beyond what the probe computes alone.
    def byte_seconds(self, link):
        recipe, examples = PROBE
        together = self.measured(recipe, 2 * examples, "dp=2", link)
        computing = self.measured(recipe, examples, "dp=1")["median_step_ms"]
        return max(together["median_step_ms"] - computing, 1e-3) * 1e-3 / together["bytes_sent_per_step"]

    def measure_link(self, link):
        if link in self.bandwidths:
            return
        if self.processor is None:
            self.processor = self.byte_seconds(FASTEST)
            print(f"a byte takes {self.processor * 1e9:.1f} ns of a processor ({FASTEST})")
        self.bandwidths[link] = 1 / max(self.byte_seconds(link), 1 / bytes_of_rate(link))
        print(f"{link}: {self.bandwidths[link] * 1e-6:.1f} MB/s, of {bytes_of_rate(link) * 1e-6:.1f}", flush=True)

    # Whether the link's latency was fitted here.
    def fits_latency(self, case, speed, seconds):
        recipe, batch, mesh, link, sharding = case
        if link in self.latencies:
            return False
        if self.options.latency is not None or self.options.without_time:
            self.latencies[link] = self.options.latency or 0.0
            return False
        forecast = lambda x: self.plan(recipe, batch, mesh, link, sharding, speed, latency=x)["step_seconds"]
        self.latencies[link] = solve(forecast, seconds, 0.0, 0.1)
        return True

    # Whether what a cut takes was fitted here.
    def fits_cut(self, case, speed, seconds):
        if self.cut is not None or self.options.without_time or case[-1] != "zero2":
            return False
        self.cut = solve(lambda x: self.plan(*case, speed, cut=x)["step_seconds"], seconds, 0.0, 0.1)
        print(f"a cut of a step takes {self.cut * 1e6:.0f} us")
        return True

    # What is in the file of measurements is not measured again.
    def measured(self, recipe, batch, mesh="dp=1", link="memory", sharding="none"):
        name = f"{recipe}:{batch} {mesh} {link} {sharding} {self.options.steps} {self.options.microbatches}"
        if name not in self.kept:
            self.kept[name] = (self.alone(recipe, batch) if ranks_of(mesh) == 1
                               else self.together(recipe, batch, mesh, link, sharding))
            if self.options.measured:
                pathlib.Path(self.options.measured).write_text(json.dumps(self.kept))
        return self.kept[name]

    def recorded(self, recipe, batch):
        name = f"{recipe}:{batch} record"
        if name not in self.kept:
            self.kept[name] = self.recording(recipe, batch)
            if self.options.measured:
                pathlib.Path(self.options.measured).write_text(json.dumps(self.kept))
        print(f"recording a step of {recipe}:{batch} takes {self.kept[name] * 1e6:.0f} us")
        return self.kept[name]

    def compare(self, recipe, batch, mesh, link, sharding):
        own, fitted, speed = batch // size_of(mesh, "dp"), False, 1
        together = self.measured(recipe, batch, mesh, link, sharding)
        measured = together["median_step_ms"]
        if not self.options.without_time:
            self.measure_link(link)
            speed = self.speed(recipe, own, self.measured(recipe, own)["median_step_ms"] * 1e-3)
            case = (recipe, batch, mesh, link, sharding)
            fitted = self.fits_latency(case, speed, measured * 1e-3) or self.fits_cut(case, speed, measured * 1e-3)
        self.bandwidths.setdefault(link, self.options.bandwidth)
        in_parts = any(size_of(mesh, axis) > 1 for axis in ("tp", "pp", "cp"))
        record = self.recorded(recipe, own) if in_parts and not self.options.without_time else 0.0
        made = self.plan(recipe, batch, mesh, link, sharding, speed, ("--device", self.options.device), record=record)
        sent = together["bytes_sent_per_step"]
        memory = made["memory_bytes"]["peak"] / together["peak_device_bytes"]
        time = made["step_seconds"] / (measured * 1e-3)
        asked = QUESTION / (2 * self.options.steps) if mesh == "dp=2" and sharding == "none" else 0
        exact = abs(sent - asked - made["bytes_per_step"]) <= 1  # rounded down to a whole number of bytes
        text = (f"{recipe} of {batch} over {mesh}, {sharding}, {link}: bytes {made['bytes_per_step']} forecast,"
                f" {sent} sent ({'equal' if exact else 'DIFFERENT'}); memory {memory:.3f}")
        if self.options.without_time:
            print(text, flush=True)
            return exact and abs(memory - 1) <= 0.05
        alone = self.measured(recipe, own)["median_step_ms"]
        share, bound, hidden = together["communication_hidden"], made["communication_hidden"], ""
        if link != "memory" and sharding == "none" and not in_parts and bound > 0:
            hidden = f"; hidden {share:.2f} of {bound:.2f}: {share / bound:.2f}"
        print(f"{text}; alone {alone:.3f} ms, forecast {made['step_seconds'] * 1e3:.3f} ms, measured {measured:.3f} ms:"
              f" time {time:.2f}"
              + (f" (fitted; a latency of {self.latencies[link] * 1e6:.0f} us)" if fitted else "")
              + hidden, flush=True)
        return exact and abs(memory - 1) <= 0.05 and abs(time - 1) <= 0.15


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--meshes", nargs="+", default=["dp=2", "dp=4"])
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--without-time", action="store_true")
    parser.add_argument("--links", nargs="+", default=["memory"])
    parser.add_argument("--sharding", nargs="+", default=["none"])
    parser.add_argument("--cases", nargs="+", default=["mnist-mlp:64", "mnist-cnn:32"])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--bandwidth", type=float, default=2e9)
    parser.add_argument("--latency", type=float)
    parser.add_argument("--cut", type=float)
    parser.add_argument("--measured", help="file that measurements are kept in")
    parser.add_argument("--memory-bandwidth", type=float, default=10e9)
    options = parser.parse_args()
    if not os.access(options.heddle, os.X_OK):
        fail(f"{options.heddle} is no program")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, folder)
        cases = [(recipe, int(batch), mesh, link, sharding) for link in options.links for sharding in options.sharding
                 for mesh in options.meshes for recipe, _, batch in (case.partition(":") for case in options.cases)]
        for case in cases:
            good = comparison.compare(*case) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
