"""Which tests reach which mutant, and which of them fail when it lives."""
import collections
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

Group = collections.namedtuple("Group", "program filter environment")
Batch = collections.namedtuple("Batch", "group tests seconds")  # tests of a group that run in one process
NO_VULKAN = {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}
HOST = {"OCL_ICD_VENDORS": "/nonexistent", "HEDDLE_DEVICE": "reference:0", **NO_VULKAN}
ON_HOST = ("unit", "null", "data", "autograd", "nn", "train", "parity", "cli", "faults", "distributed")
# Cheap groups first: those that need no driver run without one, so that nothing waits for its compiler; then OpenCL.
GROUPS = {**{name: Group(name, "*", HOST) for name in ON_HOST},
          "reference": Group("reference", "-Property/*", HOST),
          "kernels": Group("kernels", "-*vulkan*:*cuda*:*Vulkan*:*Cuda*", NO_VULKAN),
          "conformance": Group("conformance", "-*vulkan*:*cuda*:*Vulkan*", NO_VULKAN)}
QUICK = 2.0  # seconds of each group's cheapest tests that run before any dearer one


class Runner:
    """Runs tests of the mutated copy in a folder of its own."""

    def __init__(self, tree, work, name):
        self.tree, self.work = tree, work
        self.cache, self.folder = f"{work}/cache", f"{work}/{name}"
        self.scratch = f"{self.folder}/scratch"

    def environment(self, group, cache, **more):
        words = {name: str(value) for name, value in more.items()}
        return dict(os.environ, HEDDLE_CACHE_DIR=cache, HEDDLE_QUIET="1", **GROUPS[group].environment, **words)

    def start(self, group, flags, limit, log, env):
        """The exit code; None past the limit: seconds of the processor, since others may share it, and for what waits
        without end eight times as many of the clock."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.makedirs(self.scratch)
        program = f"{self.tree}/build/release/bin/heddle_tests_{GROUPS[group].program}"
        with open(log, "w") as out:
            process = subprocess.Popen(["nice", "-n", "5", program, *flags], stdout=out, stderr=subprocess.STDOUT,
                                       cwd=self.scratch, env=env, start_new_session=True,
                                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(limit), -1)))
            try:
                code = process.wait(300 + 8 * limit)
                return None if code == -signal.SIGXCPU else code
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return None

    def reach(self, group, limit):
        """Runs a group without a living mutant. Its tests come in a drawn order, so that a limit leaves out some of each
        kind: what did not run counts as reaching nothing."""
        log = f"{self.work}/reach.{group}"
        if os.path.exists(log):
            os.remove(log)
        started = time.time()
        env = self.environment(group, self.cache, HEDDLE_MUTANT_LOG=log)
        flags = [f"--gtest_filter={GROUPS[group].filter}", "--gtest_shuffle", "--gtest_random_seed=1"]
        code = self.start(group, flags, limit, f"{log}.out", env)
        how = "past the limit" if code is None else f"exit {code}"
        print(f"reach {group}: {how}, {time.time() - started:.0f} s", flush=True)

    def try_mutant(self, number, batch):
        """None, or how it died."""
        cache = f"{self.folder}/cache"  # what a mutant caches is its own
        shutil.rmtree(cache, ignore_errors=True)
        if os.path.exists(self.cache):
            shutil.copytree(self.cache, cache)
        env = self.environment(batch.group, cache, HEDDLE_MUTANT=number)
        log, names = f"{self.folder}/last.out", f"{self.folder}/filter"
        os.makedirs(self.folder, exist_ok=True)
        with open(names, "w") as file:
            file.write("--gtest_filter=" + ":".join(batch.tests) + "\n")
        flags = [f"--gtest_flagfile={names}", "--gtest_fail_fast", "--gtest_brief=1"]
        code = self.start(batch.group, flags, 30 + 10 * batch.seconds, log, env)
        if code == 0:
            return None
        failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)", open(log, errors="replace").read(), re.M)
        how = failed[0] if failed else "(hangs)" if code is None else f"(ends with {code})"
        return f"{batch.group}: {how}"


def reach_of(work, groups):
    """{group: {test: (seconds, mutants)}} of the tests that pass as they are."""
    paths = {group: f"{work}/reach.{group}" for group in groups}
    return {group: reached_tests(path) for group, path in paths.items() if os.path.exists(path)}


def reached_tests(path):
    """What is reached outside of tests, by static objects say, belongs to all tests of a group."""
    outcome, seconds, reached, everywhere = {}, {}, collections.defaultdict(set), set()
    for line in open(path):
        name, what, milliseconds, *numbers = line.split()
        numbers = {int(n) for n in numbers}
        if name == "-":
            everywhere |= numbers
            continue
        reached[name] |= numbers
        if what != "PROCESS":
            outcome[name] = what
            seconds[name] = int(milliseconds) / 1000
    return {name: (seconds[name], reached[name] | everywhere) for name, what in outcome.items() if what == "OK"}


def batches(known, number, cap):
    """(batches, how many tests are left out): the tests that reach a mutant, the quick ones of all groups first, then the
    dearer ones by their price, up to `cap` seconds."""
    quick, dear, left = [], [], 0
    for group, tests in known.items():
        batch, seconds = [], 0.0
        for name, (price, numbers) in sorted(tests.items(), key=lambda item: item[1][0]):
            if number in numbers and seconds + price <= QUICK:
                seconds += price
                batch.append(name)
            elif number in numbers:
                dear.append((price, group, name))
        if batch:
            quick.append(Batch(group, batch, seconds))
    spent, later = sum(batch.seconds for batch in quick), {}
    for price, group, name in sorted(dear):
        if spent + price > cap:
            left += 1
            continue
        spent += price
        more = later.setdefault(group, Batch(group, [], 0.0))
        later[group] = Batch(group, more.tests + [name], more.seconds + price)
    return quick + list(later.values()), left


def state_of(killer, ran, left):
    if killer:
        return "killed"
    if ran:
        return "survived" if not left else "survived the cheap"
    return "dear" if left else "not reached"


def run_one(runner, known, m, cap):
    """Its row of the results."""
    started, killer, ran = time.time(), None, 0
    todo, left = batches(known, m["number"], cap)
    for batch in todo:
        killer = runner.try_mutant(m["number"], batch)
        ran += len(batch.tests)
        if killer:
            break
    row = {key: m[key] for key in ("number", "path", "line", "operator", "source", "mutated")}
    row.update(state=state_of(killer, ran, left), by=killer, tests=ran, left_out=left,
               seconds=round(time.time() - started, 1))
    return row


def run(tree, work, groups, mutants, results_path, cap, jobs):
    """Adds a line of JSON for each mutant to the results."""
    known, lock = reach_of(work, groups), threading.Lock()
    folders = [f"run{os.getpid()}.{n}" for n in range(jobs)]

    def one(m):
        with lock:
            folder = folders.pop()
        row = run_one(Runner(tree, work, folder), known, m, cap)
        with lock:
            folders.append(folder)
            with open(results_path, "a") as file:
                file.write(json.dumps(row) + "\n")
            print(f'{m["number"]:4} {m["path"]}:{m["line"]} {m["operator"]}: {row["state"]} {row["by"] or ""} '
                  f'({row["tests"]} tests, {row["seconds"]} s)', flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, mutants))
