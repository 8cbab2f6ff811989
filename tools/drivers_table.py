"""Prints what tools/drivers.sh left in a folder as the table of docs/portability.md."""
import glob
import json
import os
import sys

out = sys.argv[1]
RECIPES = [("mnist-mlp", 200), ("char-gpt", 20), ("mnist-cnn", 10)]


def losses(name, recipe):
    found = []
    try:
        lines = open(f"{out}/{name}.{recipe}.losses").readlines()
    except FileNotFoundError:
        return found
    for line in lines:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:  # the run was ended in the middle of a line
            break
        if event.get("event") == "step":
            found.append(event["loss"])
    return found


def first_line(path):
    lines = [line.strip() for line in open(path, errors="replace") if line.startswith("heddle: ")]
    return lines[0].removeprefix("heddle: ") if lines else ""


def difference(name, recipe, steps):
    found, expected = losses(name, recipe), losses("pocl", recipe)
    if len(found) < steps:
        return first_line(f"{out}/{name}.{recipe}.error") or f"{len(found)} of {steps} steps in 600 s"
    if len(expected) < steps:
        return "not compared"
    return f"{max(abs(a - b) / abs(b) for a, b in zip(found, expected)):.1e}"


def tests(path):
    try:
        t = json.load(open(path))
    except (FileNotFoundError, json.JSONDecodeError):
        return ""
    text = f"{t['passed']} passed, {len(t['failed'])} failed, {len(t['crashed'])} crashed, {len(t['hung'])} hung"
    return text + (f", {t['left']} not run" if t["left"] else "")


def checks(report):
    passed, left, lacking = (sum(p[k] for p in report["parts"]) for k in ("passed", "left", "lacking"))
    text = f"{passed}" + (f", {lacking} lacking" if lacking else "") + (f", {left} not run" if left else "")
    findings = [f"{f['status']}: {f['check']}" for f in report["findings"]]
    return text, "; ".join(findings[:3]) + (f" and {len(findings) - 3} more" if len(findings) > 3 else "") or "none"


print("| driver | version | checks passed | findings | conformance, a selection | "
      + " | ".join(f"{recipe}, {steps} losses" for recipe, steps in RECIPES) + " | matmul 1024 |")
print("|" + "---|" * (6 + len(RECIPES)))
for path in sorted(glob.glob(f"{out}/*.doctor")):
    name = os.path.basename(path).removesuffix(".doctor")
    try:
        report = json.load(open(f"{out}/{name}.json"))
    except FileNotFoundError:
        print(f"| {name} | | | {first_line(path)} | |" + " |" * (1 + len(RECIPES)))
        continue
    figures = {f["case"]: f"{f['value']:.3g} {f['unit']}" for f in report["figures"]}
    passed, findings = checks(report)
    compared = " | ".join(difference(name, recipe, steps) for recipe, steps in RECIPES)
    print(f"| {name} | {report['environment']['device']['driver']} | {passed} | {findings} | {tests(f'{out}/{name}.tests')} | "
          f"{compared} | {figures.get('matmul 1024x1024x1024', '')} |")
print()
if os.path.exists(f"{out}/oclgrind.tests"):
    try:
        reports = sum(1 for line in open(f"{out}/oclgrind.log", errors="replace") if "race" in line or "Invalid" in line)
    except FileNotFoundError:
        reports = 0
    print(f"Oclgrind, the kernels' tests: {tests(f'{out}/oclgrind.tests')}; races and invalid accesses: {reports}.")
for tool, what in (("spirv-val", "modules"), ("clang", "programs of OpenCL C")):
    if os.path.exists(f"{out}/{tool}.json"):
        result = json.load(open(f"{out}/{tool}.json"))
        bad = result["bad"] if isinstance(result["bad"], int) else len(result["bad"])
        print(f"{tool}: {result['good']} {what} accepted, {bad} refused.")
