#!/usr/bin/env python3
"""Writes gguf_values.json: blocks and their values, and a file, as PyPI's gguf (the format's own package) has them.

Run once: python tests/data/gguf_values.py; needs gguf and NumPy. Numbers are hexadecimal bytes, little-endian.
    python tests/data/gguf_values.py FILE prints what gguf reads of a file: of one that GgufWriter wrote, for example.
"""
import json
import pathlib
import sys
import tempfile

import gguf
import numpy as np

KIND = gguf.GGMLQuantizationType


def finite_scales(blocks, places, rng):
    """Random bytes may be infinite scales."""
    for place in places:
        scale = rng.uniform(-2, 2, len(blocks)).astype("<f2")
        blocks[:, place:place + 2] = scale.view(np.uint8).reshape(-1, 2)
    return blocks


def case(kind, scales, count, rng):
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = finite_scales(rng.integers(0, 256, (count, size), np.uint8), scales, rng)
    values = gguf.quants.dequantize(blocks, kind).astype("<f4")
    return {"type": int(kind), "blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}


def small_file(rng):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "small.gguf"
        out = gguf.GGUFWriter(path, "llama")
        out.add_uint8("t.u8", 200)
        out.add_int8("t.i8", -100)
        out.add_uint16("t.u16", 60000)
        out.add_int16("t.i16", -30000)
        out.add_uint32("t.u32", 4000000000)
        out.add_int32("t.i32", -2000000000)
        out.add_uint64("t.u64", 1 << 63)
        out.add_int64("t.i64", -(1 << 62))
        out.add_float32("t.f32", 0.5)
        out.add_float64("t.f64", 0.1)
        out.add_bool("t.yes", True)
        out.add_string("t.text", "h\u00e4\nx")
        out.add_array("t.texts", ["a", "", "bc"])
        out.add_array("t.ints", [1, -2, 3])
        out.add_array("t.floats", [0.25, -1.5])
        out.add_array("t.nested", [[1, 2], [3]])
        out.add_tensor("w.f32", np.arange(6, dtype=np.float32).reshape(2, 3))
        out.add_tensor("w.f16", np.arange(4, dtype=np.float16).reshape(4, 1))
        rows = rng.standard_normal((3, 64)).astype(np.float32)
        out.add_tensor("w.q8_0", gguf.quants.quantize(rows, KIND.Q8_0), raw_dtype=KIND.Q8_0)
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_tensors_to_file()
        out.close()
        reader = gguf.GGUFReader(path)
        values = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype("<f4").tobytes().hex()
                  for t in reader.tensors}
        return {"file": path.read_bytes().hex(), "values": values}


def show(path):
    reader = gguf.GGUFReader(path)
    for name, field in reader.fields.items():
        print(name, str(field.contents())[:100])
    for t in reader.tensors:
        print(t.name, t.tensor_type.name, [int(d) for d in t.shape],
              float(np.abs(gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64)).sum()))


if len(sys.argv) > 1:
    show(sys.argv[1])
else:
    rng = np.random.default_rng(1)
    cases = [case(KIND.F32, [], 0, rng), case(KIND.Q4_0, [0], 3, rng), case(KIND.Q4_1, [0, 2], 3, rng),
             case(KIND.Q8_0, [0], 3, rng), case(KIND.Q4_K, [0, 2], 2, rng), case(KIND.Q6_K, [208], 2, rng)]
    halves = rng.standard_normal((1, 16)).astype(np.float32)
    for kind in (KIND.F16, KIND.BF16):
        packed = gguf.quants.quantize(halves, kind)
        values = gguf.quants.dequantize(packed, kind).astype("<f4")
        cases.append({"type": int(kind), "blocks": packed.tobytes().hex(), "values": values.tobytes().hex()})
    result = {"blocks": cases, "small": small_file(rng)}
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(result, separators=(",", ":")))
