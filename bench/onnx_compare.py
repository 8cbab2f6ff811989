#!/usr/bin/env python3
"""Models that PyPI packages carry, in Heddle and in ONNX Runtime: values, speed, states, sizes of pictures.

  bench/get_peers.sh
  /opt/heddle-peers/venv/bin/python bench/onnx_compare.py values --device opencl:0
  /opt/heddle-peers/venv/bin/python bench/onnx_compare.py speed --device opencl:0 [--models silero,det] [--rounds 5]
  /opt/heddle-peers/venv/bin/python bench/onnx_compare.py audio --device opencl:0
  /opt/heddle-peers/venv/bin/python bench/onnx_compare.py sizes --device opencl:0

values: every output of every model, largest difference over the output's largest value, at most 1e-4. speed: rounds of
one after the other (`heddle run --repeat`, a process of its own; ONNX Runtime on 2 threads in this one), medians, the
ratio ONNX Runtime / Heddle (above 1, Heddle is faster) with its range over the rounds, and the geometric mean. audio:
30 s of made speech in frames of 512 samples through each silero that keeps a state, from call to call, within 1e-3.
sizes: PP-OCR's detection and recognition on pictures of five sizes: kernels that each of them compiled, none from the
fourth on. Without the folder of bench/get_peers.sh ($HEDDLE_PEERS, /opt/heddle-peers) everything is skipped, in one
line. Exit code: 0, 1 where a bound is missed, 2 with one line when heddle is missing.
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

PEERS = pathlib.Path(os.environ.get("HEDDLE_PEERS", "/opt/heddle-peers"))
BOUND, AUDIO_BOUND = 1e-4, 1e-3
RATE, FRAME, CONTEXT = 16000, 512, 64
PICTURES = {"ocr-detection": ((320, 480), (480, 640), (352, 608), (416, 736), (288, 544)),  # heights and widths
            "ocr-recognition": ((48, 320), (48, 200), (48, 264), (48, 424), (48, 516))}


def cases(random):
    """By name: file under models/, inputs."""
    def normal(*shape):
        return (0.1 * random.standard_normal(shape)).astype("f")

    def uniform(*shape):
        return random.random(shape).astype("f")

    import numpy
    silero, ocr = "silero-vad-6.2.3/", "rapidocr-onnxruntime-1.4.4/"
    state = {"state": normal(2, 1, 128)}
    frame, rate = {"input": normal(1, FRAME + CONTEXT)}, {"sr": numpy.array(RATE, "i8")}
    return {
        "silero": (silero + "silero_vad.onnx", {**frame, **state, **rate}),
        "silero-8k": (silero + "silero_vad.onnx",
                      {"input": normal(1, 288), **state, "sr": numpy.array(8000, "i8")}),
        "silero-op15": (silero + "silero_vad_16k_op15.onnx", {**frame, **state, **rate}),
        "silero-half": (silero + "silero_vad_half.onnx", {**frame, **state}),
        "silero-ifless": (silero + "silero_vad_op18_ifless.onnx", {**frame, **rate, **state}),
        "silero-openvino": (silero + "silero_vad_openvino_16k.onnx", {**frame, **state}),
        "silero-sequence": (silero + "silero_vad_16k_sequence.onnx",
                            {"input": normal(32, FRAME + CONTEXT), "h": normal(1, 1, 128), "c": normal(1, 1, 128)}),
        "silero-6.1": ("silero-vad-6.1.0/silero_vad.onnx", {**frame, **state, **rate}),
        "silero-6.1-op15": ("silero-vad-6.1.0/silero_vad_16k_op15.onnx", {**frame, **state, **rate}),
        "silero-5.1": ("silero-vad-5.1/silero_vad.onnx", {**frame, **state, **rate}),
        "ocr-direction": (ocr + "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": 2 * uniform(1, 3, 48, 192) - 1}),
        "ocr-recognition": (ocr + "ch_PP-OCRv4_rec_infer.onnx", {"x": 2 * uniform(1, 3, 48, 320) - 1}),
        "ocr-detection": (ocr + "ch_PP-OCRv4_det_infer.onnx", {"x": 2 * uniform(1, 3, 480, 640) - 1}),
        "magika": ("magika-1.0.3/model.onnx", {"bytes": random.integers(0, 257, (1, 2048)).astype("i4")}),
        "basic-pitch": ("basic-pitch-0.4.0/nmp.onnx", {"serving_default_input_2:0": normal(1, 43844, 1)}),
        "nudenet": ("nudenet-3.4.2/320n.onnx", {"images": uniform(1, 3, 320, 320)}),
        "ddddocr": ("ddddocr-1.6.1/common.onnx", {"input1": uniform(1, 1, 64, 200)}),
        "ddddocr-detection": ("ddddocr-1.6.1/common_det.onnx", {"images": 255 * uniform(1, 3, 416, 416)}),
    }


def session(model, threads=2):
    import onnxruntime
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(PEERS / "models" / model, options, providers=["CPUExecutionProvider"])


def heddle(given, model, inputs, folder, *more):
    """The lines of `heddle run --json`; an input that is a list makes several calls."""
    import numpy
    arguments = []
    for name, values in inputs.items():
        for value in values if isinstance(values, list) else [values]:
            path = folder / f"in{len(arguments)}.npy"
            numpy.save(path, value)
            arguments += ["--input", f"{name}={path}"]
    done = subprocess.run([given.heddle, "run", str(PEERS / "models" / model), *arguments, "--output", folder / "out",
                           "--device", given.device, "--json", *more], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def load(folder, name):
    import numpy
    return numpy.load(folder / (re.sub("[^A-Za-z0-9._-]", "_", name) + ".npy"))


def difference(got, want):
    if got.shape != want.shape:
        return math.inf
    if want.size == 0:
        return 0.0
    return float(abs(got - want).max() / max(abs(want).max(), 1e-30))


def values(given, name, model, inputs):
    peer = session(model)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        heddle(given, model, inputs, folder)
        worst = {output.name: difference(load(folder / "out", output.name), want)
                 for output, want in zip(peer.get_outputs(), peer.run(None, inputs))}
    print(f"{name:18} " + "  ".join(f"{output} {d:.1e}" for output, d in worst.items()), flush=True)
    return max(worst.values()) <= BOUND


def speed(given, name, model, inputs):
    """Milliseconds by round of Heddle and of ONNX Runtime."""
    peer = session(model)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(given.rounds + 1):  # the first one warms caches up
            begin = time.perf_counter()
            peer.run(None, inputs)
            repeat = max(5, min(400, int(1 / (time.perf_counter() - begin))))
            line = heddle(given, model, inputs, pathlib.Path(scratch), "--repeat", str(repeat))[-1]
            times = []
            for _ in range(repeat + 3):
                begin = time.perf_counter()
                peer.run(None, inputs)
                times.append(1000 * (time.perf_counter() - begin))
            if turn > 0:
                ours.append(line["median_ms"])
                theirs.append(statistics.median(times[3:]))
    ratios = [b / a for a, b in zip(ours, theirs)]
    ratio = statistics.median(ratios)
    print(f"{name:18} {line['kernels']:4} kernels {statistics.median(ours):9.3f} ms {statistics.median(theirs):9.3f} ms"
          f"  {ratio:5.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)
    return ratio


def speech(random):
    """Half a minute of what sounds like speech: vowels of two formants, hisses, pauses."""
    import numpy
    samples, t = [], 0
    while t < 30 * RATE:
        length = int(RATE * random.uniform(0.08, 0.4))
        kind = random.integers(0, 4)
        at = numpy.arange(length) / RATE
        envelope = numpy.hanning(length)
        if kind == 0:
            part = 0.001 * random.standard_normal(length)
        elif kind == 1:
            part = 0.1 * envelope * numpy.diff(random.standard_normal(length + 1))
        else:
            pitch = random.uniform(90, 220) * (1 + 0.05 * numpy.sin(2 * numpy.pi * 5 * at))
            phase = 2 * numpy.pi * numpy.cumsum(pitch) / RATE
            first, second = random.uniform(300, 900), random.uniform(900, 2500)
            part = sum(numpy.sin(k * phase) * (math.exp(-((k * 150 - first) / 200) ** 2) +
                                              0.5 * math.exp(-((k * 150 - second) / 300) ** 2) + 0.02)
                       for k in range(1, 25))
            part = 0.2 * envelope * part
        samples.append(part)
        t += length
    return numpy.concatenate(samples)[:30 * RATE].astype("f")


def frames_of(sound):
    """Frames with the samples that go before each."""
    import numpy
    count = len(sound) // FRAME
    padded = numpy.concatenate([numpy.zeros(CONTEXT, "f"), sound])
    return numpy.stack([padded[i * FRAME:i * FRAME + FRAME + CONTEXT] for i in range(count)])[:, None]


def audio(given, name, model, inputs):
    """Largest differences of the probability and of the state over half a minute."""
    import numpy
    peer = session(model)
    frames = frames_of(speech(numpy.random.default_rng(5)))
    state = numpy.zeros_like(inputs["state"])
    fed = {**inputs, "input": frames, "state": state}
    probability, last = [], state
    for frame in frames:
        out, last = peer.run(None, {**fed, "input": frame, "state": last})
        probability.append(out)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        lines = heddle(given, model, fed, folder, "--each", "input", "--carry", "stateN=state")
        got = numpy.stack([load(folder / "out" / str(i), "output") for i in range(len(frames))])
        end = load(folder / "out" / str(len(frames) - 1), "stateN")
    worst = float(abs(got - numpy.stack(probability)).max()), difference(end, last)
    print(f"{name:18} {len(frames)} frames, probabilities {got.min():.3f} to {got.max():.3f}: differ by {worst[0]:.1e}, "
          f"the last state by {worst[1]:.1e}; {sum(line['compiled_kernels'] for line in lines)} kernels compiled", flush=True)
    return max(worst) <= AUDIO_BOUND


def sizes(given, name, model, _):
    """Kernels that pictures of five sizes compiled, each picture once."""
    import numpy
    random = numpy.random.default_rng(7)
    pictures = [(2 * random.random((1, 3, *size)) - 1).astype("f") for size in PICTURES[name]]
    peer = session(model)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        lines = heddle(given, model, {"x": pictures}, folder)
        worst = max(difference(load(folder / "out" / str(i), peer.get_outputs()[0].name), peer.run(None, {"x": x})[0])
                    for i, x in enumerate(pictures))
    compiled = [line["compiled_kernels"] for line in lines]
    print(f"{name:18} compiled {compiled}, outputs differ by {worst:.1e}", flush=True)
    return not any(compiled[3:]) and worst <= BOUND


def chosen(given):
    import numpy
    words = given.models.split(",") if given.models else [""]
    return {name: case for name, case in cases(numpy.random.default_rng(3)).items() if any(w in name for w in words)}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("part", choices=["values", "speed", "audio", "sizes"])
    options.add_argument("--device", default="opencl:0")
    options.add_argument("--heddle", default="build/release/bin/heddle")
    options.add_argument("--models", help="words, with commas between them, one of which a model's name contains")
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    if not (PEERS / "models").is_dir():
        print(f"skipped: {PEERS} holds no models (bench/get_peers.sh brings them; $HEDDLE_PEERS names another folder)")
        return 0
    try:
        import onnxruntime
    except ImportError:
        print(f"skipped: this Python has no onnxruntime; {PEERS}/venv/bin/python has")
        return 0
    if not os.access(given.heddle, os.X_OK):
        print(f"{given.heddle} is missing: build it, or --heddle FILE", file=sys.stderr)
        return 2
    print(f"{given.device}; ONNX Runtime {onnxruntime.__version__}, 2 threads; load {os.getloadavg()[0]:.1f}")
    part = {"values": values, "speed": speed, "audio": audio, "sizes": sizes}[given.part]
    said, failed = [], []
    for name, (model, inputs) in chosen(given).items():
        keeps_state = "state" in inputs and inputs["input"].shape[1] == FRAME + CONTEXT
        if (given.part == "audio" and not keeps_state) or (given.part == "sizes" and name not in PICTURES):
            continue
        try:
            said.append(part(given, name, model, inputs))
        except RuntimeError as error:
            print(f"{name:18} {error}")
            failed.append(name)
    if given.part == "speed" and said:
        print(f"geometric mean {statistics.geometric_mean(said):.2f}, least {min(said):.2f} of {len(said)}")
        return 1 if failed or statistics.geometric_mean(said) < 1.0 or min(said) < 0.7 else 0
    return 1 if failed or not all(said) else 0


if __name__ == "__main__":
    sys.exit(main())
