#!/usr/bin/env python3
"""Exported models through ONNX's checker and ONNX Runtime.

  python3 -m venv /tmp/export-venv && /tmp/export-venv/bin/pip install onnx onnxruntime
  /tmp/export-venv/bin/python bench/onnx_export_check.py [--program build/release/bin/heddle] [--opsets 17,21]
      [--models mlp,lstm] [--recipes mnist-mlp,...] [--device reference:0] [--plain] [--whole] [--json results.json]

For every model of `heddle summary` and a run of two steps of every recipe: `heddle export` with an example, the checker
with shape inference, ONNX Runtime's values against those of Heddle's own model, and the file imported again (`heddle
run`) against the same bits. Exit code 1 where one of them fails. Weights of 2 GiB and more lie beside
the file: those models take much memory, and run only where --models names them.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime

BOUND = 1e-5  # of the largest value
MODELS = ("mlp cnn lenet resnet18 resnet34 resnet50 resnet18-cifar mobilenetv2 vit-b16 unet autoencoder vae lstm gru "
          "gpt2 gpt2-medium nanogpt-char nanogpt-char-cpu").split()
RECIPES = ("mnist-mlp mnist-cnn cifar-resnet image-classifier table char-gpt char-lstm gpt2 vae mail-sorter").split()
SHAPES = {  # of the larger models, so that the reference device is done in minutes; whole ones with --whole
    **{name: "N,3,64,64" for name in ("resnet18", "resnet34", "resnet50", "mobilenetv2")},
    **{name: "N,16" for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "nanogpt-char")},
}
SMALLER = {  # options that make a run of a recipe a matter of seconds
    "cifar-resnet": ["--set", "model.width=8", "--set", "model.blocks=1,1"],
    "image-classifier": ["--model", "mobilenetv2"],
    "gpt2": ["--set", "model.layers=2", "--set", "model.width=64", "--set", "model.heads=2", "--set",
             "model.context=64", "--set", "model.vocabulary=300"],
}


def heddle(options, *arguments):
    done = subprocess.run([options.program, *arguments], capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    return done.stdout


def made_data(recipe, folder):
    """Arguments that give a recipe the data it cannot do without."""
    random = numpy.random.default_rng(1)
    if recipe == "table":
        path = os.path.join(folder, "rows.csv")
        with open(path, "w") as out:
            out.write("width,kind,price\n")
            for width, kind in zip(random.random(80), random.integers(0, 3, 80)):
                out.write(f"{width:.4f},{'abc'[kind]},{3 * width + kind:.4f}\n")
        return ["--data", path, "--target", "price"]
    if recipe in ("cifar-resnet", "image-classifier"):
        import struct
        import zlib

        def png(path, pixels):
            def chunk(kind, data):
                body = kind + data
                return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
            h, w, _ = pixels.shape
            rows = b"".join(b"\0" + pixels[i].tobytes() for i in range(h))
            with open(path, "wb") as out:
                out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) +
                          chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        for name, shift in (("dark", 0), ("light", 120)):
            os.makedirs(os.path.join(folder, "images", name), exist_ok=True)
            for i in range(8):
                pixels = (random.integers(0, 130, (32, 32, 3)) + shift).astype(numpy.uint8)
                png(os.path.join(folder, "images", name, f"{i}.png"), pixels)
        return ["--data", os.path.join(folder, "images"), "--image-size", "32"]
    return []


def trained(options, recipe, folder):
    run = os.path.join(folder, recipe)
    heddle(options, "train", recipe, "--steps", "2", "--batch", "4", "--limit-test", "8", "--out", run,
           "--device", options.train_device, *made_data(recipe, folder), *SMALLER.get(recipe, []))
    return run


def shaken(options, model, file, folder):
    """Weights of a model in a .safetensors file, those that are one number throughout moved at random: heads begin as
    zeros, which hide the rest, and what is one number is folded where it is imported, which rounds once less."""
    random = numpy.random.default_rng(2)
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(file).graph.initializer}
    header, data, at = {}, [], 0
    for name, array in arrays.items():
        if re.fullmatch(r"(number|numbers|constant)(_\d+)?", name):
            continue
        if array.size > 1 and array.min() == array.max():
            array = (array + random.normal(0, 0.05, array.shape)).astype(array.dtype)
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        data.append(numpy.ascontiguousarray(array).tobytes())
        at += array.nbytes
    text = json.dumps(header).encode()
    path = os.path.join(folder, "shaken.safetensors")
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        out.writelines(data)
    return ["--weights", path]


def checked(options, model, opset, folder, extra):
    """Figures of one export; raises where something does not hold."""
    file, example, again = (os.path.join(folder, name) for name in ("net.onnx", "example", "again"))
    arguments = ["export", model, "-o", file, "--opset", str(opset), "--device", options.device, "--json"]
    said = json.loads(heddle(options, *arguments, "--example", example, *(["--plain"] if options.plain else []),
                             *extra))
    onnx.checker.check_model(file, full_check=True)
    x, y = (numpy.load(os.path.join(example, name)) for name in ("x.npy", "y.npy"))
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": x})[0]
    if found.shape != y.shape or found.dtype != y.dtype:
        raise RuntimeError(f"ONNX Runtime gives {found.dtype}{found.shape}, Heddle {y.dtype}{y.shape}")
    largest = float(numpy.abs(y).max()) or 1.0
    apart = float(numpy.abs(found.astype(numpy.float64) - y).max()) / largest
    heddle(options, "run", file, "--input", f"x={os.path.join(example, 'x.npy')}", "--output", again, "--device",
           options.device)
    back = numpy.load(os.path.join(again, "y.npy"))
    return {"zero": not y.any(), "nodes": said["nodes"], "functions": said["functions"], "bytes": said["bytes"],
            "apart": apart, "same_bits": back.tobytes() == y.tobytes(),
            "again_apart": float(numpy.abs(back.astype(numpy.float64) - y).max()) / largest}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/heddle")
    parser.add_argument("--device", default="reference:0")
    parser.add_argument("--train-device", default="reference:0")
    parser.add_argument("--opsets", default="17,21")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--plain", action="store_true", help="without functions; the bits are then not compared")
    parser.add_argument("--whole", action="store_true", help="every model with its usual input")
    parser.add_argument("--json")
    options = parser.parse_args()
    results, failed = [], 0
    names = [(name, False) for name in options.models.split(",") if name]
    names += [(name, True) for name in options.recipes.split(",") if name]
    for name, recipe in names:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.time()
            row = {"name": f"recipe {name}" if recipe else name}
            try:
                model = trained(options, name, folder) if recipe else name
                shape = None if recipe or options.whole else SHAPES.get(name)
                extra = ["--shape", shape] if shape else []
                for opset in options.opsets.split(","):
                    row[f"opset {opset}"] = figures = checked(options, model, opset, folder, extra)
                    zero = figures.pop("zero")
                    if not recipe and "--weights" not in extra and (zero or options.device != "reference:0"):
                        extra += shaken(options, model, os.path.join(folder, "net.onnx"), folder)
                        row[f"opset {opset}"] = figures = checked(options, model, opset, folder, extra)
                        figures.pop("zero")
                    if figures["apart"] > BOUND or not (options.plain or figures["same_bits"]):
                        row["failed"] = f"opset {opset}"
            except Exception as error:  # noqa: BLE001
                row["failed"] = str(error)[:300]
            row["seconds"] = round(time.time() - begin, 1)
            failed += "failed" in row
            results.append(row)
            print(json.dumps(row), flush=True)
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__, "results": results}, out,
                      indent=1)
    print(f"{len(results)} models, {failed} failed; onnx {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
