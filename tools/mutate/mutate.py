"""See tools/mutate.sh."""
import argparse
import collections
import json
import os

import run
import tree as copies

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS = ["draw", "build", "reach", "run", "table"]


def save(options, mutants):
    with open(options.mutants, "w") as file:
        json.dump(mutants, file, indent=1)


def draw(options):
    """More than are wanted, since some do not compile."""
    import cpp_sites
    copies.write_copy(ROOT, options.tree, [])
    copies.configure(options.tree, options.flags)
    given = cpp_sites.arguments_of(f"{options.tree}/build/release")
    arguments = {name.replace(options.tree + "/", ROOT + "/"): words for name, words in given.items()}
    save(options, copies.draw(ROOT, arguments, round(options.count * 1.12), options.seed))


def build(options, groups):
    mutants = json.load(open(options.mutants))
    while True:
        copies.write_copy(ROOT, options.tree, mutants)
        copies.configure(options.tree, options.flags)
        log = copies.build(options.tree, ["heddle"], options.jobs)
        if "FAILED:" not in log:
            break
        kept = copies.without_broken(mutants, log, options.tree)
        print(f"{len(mutants) - len(kept)} of {len(mutants)} mutants do not compile", flush=True)
        if len(kept) == len(mutants):
            raise SystemExit(f"mutate: the copy does not build: {options.tree}/build/build.log")
        mutants = kept
    save(options, mutants[:options.count])
    for program in sorted({run.GROUPS[group].program for group in groups}):
        if "FAILED:" in copies.build(options.tree, [f"heddle_tests_{program}"], options.jobs):
            raise SystemExit(f"mutate: the tests do not build: {options.tree}/build/build.log")
        print(f"built {program}", flush=True)


def results(options):
    """{number: its last row}"""
    if not os.path.exists(options.results):
        return {}
    return {row["number"]: row for row in map(json.loads, open(options.results))}


def chosen(options):
    """The mutants to run: those without a result, or what --only says."""
    mutants, known = json.load(open(options.mutants)), results(options)
    if options.only and options.only[0].isdigit():
        numbers = {int(n) for n in options.only.split(",")}
        return [m for m in mutants if m["number"] in numbers]
    return [m for m in mutants if known.get(m["number"], {}).get("state") == options.only]


def table(options):
    rows = [row for _, row in sorted(results(options).items())]
    for row in rows:
        print(f'{row["number"]:4}  {row["path"]}:{row["line"]}  {row["operator"]}  {row["state"]}  {row["by"] or ""}')
    for kind in (lambda row: row["path"].split("/")[0], lambda row: row["operator"]):
        count = collections.defaultdict(collections.Counter)
        for row in rows:
            count[kind(row)][row["state"]] += 1
        print()
        for name, states in sorted(count.items()):
            print(f"{name:12}", ", ".join(f"{state} {n}" for state, n in sorted(states.items())))
    killed = sum(row["state"] == "killed" for row in rows)
    print(f"\n{killed} of {len(rows)} killed ({100 * killed / max(1, len(rows)):.1f} %)")


def main():
    parser = argparse.ArgumentParser(prog="tools/mutate.sh")
    parser.add_argument("steps", choices=STEPS, nargs="+")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", default=f"{ROOT}/build/mutants")
    parser.add_argument("--groups", default=",".join(run.GROUPS), help="groups of tests to build and to run")
    parser.add_argument("--flags", default="-O1 -DNDEBUG")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--cap", type=float, default=1e9, help="seconds of tests for each mutant")
    parser.add_argument("--reach-limit", type=float, default=3600, help="seconds of each group in the step reach")
    parser.add_argument("--only", help="numbers of mutants, or a state in the results so far; else what has no result")
    options = parser.parse_args()
    options.tree = f"{options.work}/tree"
    options.mutants, options.results = f"{options.work}/mutants.json", f"{options.work}/results.jsonl"
    os.makedirs(options.work, exist_ok=True)
    groups = options.groups.split(",")
    if "draw" in options.steps:
        draw(options)
    if "build" in options.steps:
        build(options, groups)
    if "reach" in options.steps:
        for group in groups:
            run.Runner(options.tree, options.work, f"reach-{group}").reach(group, options.reach_limit)
    if "run" in options.steps:
        run.run(options.tree, options.work, groups, chosen(options), options.results, options.cap, options.jobs)
    if "table" in options.steps:
        table(options)


main()
