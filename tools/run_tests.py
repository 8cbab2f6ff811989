#!/usr/bin/env python3
"""Runs GoogleTest cases that may kill or hang their process, and counts what came of each.

  tools/run_tests.py PROGRAM FILTER SECONDS [HANG_SECONDS]

All cases run in one process until one of them ends it or says nothing for HANG_SECONDS (default 120); the next process
goes on behind it. After SECONDS no more are begun. What each case came to and its seconds go to stderr. Prints JSON:
{"passed", "skipped", "failed": [names], "crashed": [...], "hung": [...], "left"}.
"""
import json
import queue
import subprocess
import sys
import threading
import time


def cases(program, which):
    out = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={which}"], capture_output=True, text=True).stdout
    suite, names = "", []
    for line in out.splitlines():
        if line.startswith("  "):
            names.append(suite + line.split()[0])
        elif line.endswith(".") or ".  #" in line:
            suite = line.split()[0]
    return names


def lines_of(process):
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def say(what, name, begun):
    print(f"{what} {name} {time.time() - begun:.1f} s", file=sys.stderr, flush=True)


# Runs the cases until all are through or the process ends; returns those that are left.
def run(program, names, result, end, hang):
    process = subprocess.Popen([program, "--gtest_filter=" + ":".join(names)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, errors="replace")
    lines, current, begun, done = lines_of(process), None, 0.0, set()
    why = "crashed"
    while True:
        try:
            line = lines.get(timeout=max(1.0, min(hang, end - time.time() + hang)))
        except queue.Empty:
            why = "hung"
            break
        if line is None:
            break
        if line.startswith("[ RUN      ] "):
            if time.time() > end:
                why = "left"
                break
            current, begun = line[13:].split()[0], time.time()
        for mark, key in (("[       OK ] ", "passed"), ("[  SKIPPED ] ", "skipped"), ("[  FAILED  ] ", "failed")):
            if line.startswith(mark) and current and line[13:].split()[0].rstrip(",") == current:
                done.add(current)
                say(key, current, begun)
                result[key] = result[key] + [current] if key == "failed" else result[key] + 1
                current = None
    process.kill()
    process.wait()
    if current and why != "left":
        result[why].append(current)
        say(why, current, begun)
        done.add(current)
    elif not done and why == "crashed":  # it does not even begin
        result["crashed"].append(names[0])
        done.add(names[0])
    return [name for name in names if name not in done]


def main():
    program, which, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    hang = float(sys.argv[4]) if len(sys.argv) > 4 else 120.0
    result = {"passed": 0, "skipped": 0, "failed": [], "crashed": [], "hung": [], "left": 0}
    names, end = cases(program, which), time.time() + seconds
    while names and time.time() < end:
        names = run(program, names, result, end, hang)
    result["left"] = len(names)
    print(json.dumps(result))


main()
