#!/usr/bin/env python3
"""The node cases of PyPI's onnx on a device: how many give the stored values, and what the others say.

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install onnx==1.23.2
    /tmp/peers/bin/python bench/onnx_cases.py --device opencl:0

Needs build/release/bin/heddle_tests_onnx. Each case is written as libonnx-testdata has it (model.onnx, test_data_set_N
with input_M.pb and output_M.pb) into a folder that the tests take in place of Debian's (HEDDLE_ONNX_CASES). With
--names a line a failing case follows the counts.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings


def to_proto(onnx, value, kind):
    """A value as NumPy has it, as the protobuf of its type."""
    from onnx import numpy_helper
    if kind.HasField("sequence_type"):
        return numpy_helper.from_list(value)
    if kind.HasField("optional_type"):
        return numpy_helper.from_optional(value)
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(value)


def write_case(onnx, case, folder):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for number, (inputs, outputs) in enumerate(case.data_sets):
        one = folder / f"test_data_set_{number}"
        one.mkdir()
        for name, values, ports in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
            for i, (value, port) in enumerate(zip(values, ports)):
                proto = to_proto(onnx, value, port.type)
                (one / f"{name}_{i}.pb").write_bytes(proto.SerializeToString())


def write_cases(folder):
    import onnx
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    unwritten = []
    for case in cases:
        try:
            write_case(onnx, case, folder / "node" / case.name)
        except Exception as error:  # the package's own data are wrong
            unwritten.append(f"{case.name}: {error}")
    return onnx.__version__, len(cases), unwritten


def run(program, folder, device, work):
    """By case, what it failed with; empty for those that passed."""
    result = work / "result.json"
    backend = device.split(":")[0]
    environment = dict(os.environ, HEDDLE_ONNX_CASES=str(folder))
    subprocess.run([program, f"--gtest_filter={backend}/OnnxCases*", f"--gtest_output=json:{result}", "--gtest_brief=1"],
                   env=environment, stdout=subprocess.DEVNULL, check=False)
    said = {}
    for suite in json.loads(result.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            name = test["name"].split("/")[1].removeprefix("node_")
            said[name] = "\n".join(failure["failure"] for failure in test.get("failures", []))
    return said


def reason(text):
    """The line of a failure that says why."""
    lines = [line.strip() for line in text.splitlines() if "[onnx]" in line or "Which is" in line or ": " in line]
    return (lines or [text])[0][:200]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--device", default="opencl:0")
    options.add_argument("--program", default="build/release/bin/heddle_tests_onnx")
    options.add_argument("--cases", type=pathlib.Path, help="folder for the cases, kept; one that is there is used")
    options.add_argument("--names", action="store_true")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch)
        folder = given.cases or work / "cases"
        if not (folder / "node").exists():
            version, count, unwritten = write_cases(folder)
            print(f"onnx {version}: {count} cases, {len(unwritten)} of them not written", file=sys.stderr)
        said = run(given.program, folder.resolve(), given.device, work)
    failed = {name: reason(text) for name, text in said.items() if text}
    if given.json:
        print(json.dumps({"device": given.device, "cases": len(said), "pass": len(said) - len(failed), "failed": failed}))
        return
    print(f"{given.device}: {len(said) - len(failed)} of {len(said)} pass")
    if given.names:
        for name, why in sorted(failed.items()):
            print(f"{name}: {why}")
    else:
        for why, times in collections.Counter(failed.values()).most_common():
            print(f"{times:5} {why}")


if __name__ == "__main__":
    main()
