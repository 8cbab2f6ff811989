"""Which tests reach which mutant, and which of them fail when it lives."""
import collections
import json
import os
import re
import shutil
import subprocess
import time

Group = collections.namedtuple("Group", "program filter environment")
NO_VULKAN = {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}
HOST = {"OCL_ICD_VENDORS": "/nonexistent", "HEDDLE_DEVICE": "reference:0", **NO_VULKAN}
ON_HOST = ("unit", "null", "data", "nn", "autograd", "train", "parity")
# Cheap groups first: those that need no driver run without one, so that nothing waits for its compiler; then OpenCL.
GROUPS = {**{name: Group(name, "*", HOST) for name in ON_HOST},
          "reference": Group("reference", "-Property/*", HOST),
          "kernels": Group("kernels", "-*vulkan*:*cuda*:*Vulkan*:*Cuda*", NO_VULKAN),
          "conformance": Group("conformance", "-*vulkan*:*cuda*:*Vulkan*", NO_VULKAN)}


class Runner:
    def __init__(self, tree, work):
        self.tree, self.work = tree, work
        self.cache, self.scratch = f"{work}/cache", f"{work}/scratch"

    def environment(self, group, cache, **more):
        words = {name: str(value) for name, value in more.items()}
        return dict(os.environ, HEDDLE_CACHE_DIR=cache, HEDDLE_QUIET="1", **GROUPS[group].environment, **words)

    def start(self, group, flags, limit, log, env):
        """The exit code; None past the limit."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.makedirs(self.scratch)
        program = f"{self.tree}/build/release/bin/heddle_tests_{GROUPS[group].program}"
        with open(log, "w") as out:
            process = subprocess.Popen(["nice", "-n", "5", program, *flags], stdout=out, stderr=subprocess.STDOUT,
                                       cwd=self.scratch, env=env, start_new_session=True)
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return None

    def reach(self, group, limit):
        """Runs a group without a living mutant."""
        log = f"{self.work}/reach.{group}"
        if os.path.exists(log):
            os.remove(log)
        started = time.time()
        env = self.environment(group, self.cache, HEDDLE_MUTANT_LOG=log)
        code = self.start(group, [f"--gtest_filter={GROUPS[group].filter}"], limit, f"{log}.out", env)
        print(f"reach {group}: exit {code}, {time.time() - started:.0f} s", flush=True)

    def tests(self):
        """{group: {test: (seconds, mutants)}} of the tests that pass as they are."""
        paths = {group: f"{self.work}/reach.{group}" for group in GROUPS}
        return {group: reached_tests(path) for group, path in paths.items() if os.path.exists(path)}

    def try_mutant(self, number, group, tests, seconds):
        """None, or how it died."""
        with open(f"{self.work}/filter", "w") as file:
            file.write("--gtest_filter=" + ":".join(tests) + "\n")
        cache = f"{self.work}/cache.living"  # what a mutant caches is its own
        shutil.rmtree(cache, ignore_errors=True)
        if os.path.exists(self.cache):
            shutil.copytree(self.cache, cache)
        log = f"{self.work}/last.out"
        flags = [f"--gtest_flagfile={self.work}/filter", "--gtest_fail_fast", "--gtest_brief=1"]
        code = self.start(group, flags, 30 + 10 * seconds, log, self.environment(group, cache, HEDDLE_MUTANT=number))
        if code == 0:
            return None
        failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)", open(log, errors="replace").read(), re.M)
        how = failed[0] if failed else "(hangs)" if code is None else f"(ends with {code})"
        return f"{group}: {how}"


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


def cheapest(known, number, cap):
    """(tests, their seconds, how many are left out): those that reach a mutant, the cheap first, up to `cap` seconds"""
    chosen, total, left = [], 0.0, 0
    for name, (seconds, numbers) in sorted(known.items(), key=lambda item: item[1][0]):
        if number not in numbers:
            continue
        if total + seconds > cap:
            left += 1
            continue
        total += seconds
        chosen.append(name)
    return chosen, total, left


def state_of(killer, ran, left):
    if killer:
        return "killed"
    if ran:
        return "survived" if not left else "survived the cheap"
    return "dear" if left else "not reached"


def run(runner, mutants, results_path, cap):
    """Adds a line of JSON for each mutant to the results."""
    tests = runner.tests()
    for m in mutants:
        started, ran, left, killer = time.time(), 0, 0, None
        for group, known in tests.items():
            chosen, seconds, more = cheapest(known, m["number"], cap)
            left += more
            ran += len(chosen)
            killer = runner.try_mutant(m["number"], group, chosen, seconds) if chosen else None
            if killer:
                break
        row = {key: m[key] for key in ("number", "path", "line", "operator", "source", "mutated")}
        row.update(state=state_of(killer, ran, left), by=killer, tests=ran, left_out=left,
                   seconds=round(time.time() - started, 1))
        with open(results_path, "a") as file:
            file.write(json.dumps(row) + "\n")
        print(f'{m["number"]:4} {m["path"]}:{m["line"]} {m["operator"]}: {row["state"]} {killer or ""} '
              f'({ran} tests, {row["seconds"]} s)', flush=True)
