#!/usr/bin/env python3
"""Writes torch_values.json: files of torch.save() (hexadecimal), and what is in them.

Run once: python tests/data/torch_values.py; needs PyTorch.
"""
import collections
import io
import json
import pathlib
import zipfile

import torch


def saved(thing, **options):
    out = io.BytesIO()
    torch.save(thing, out, **options)
    return out.getvalue()


def tensor_json(tensor):
    raw = tensor.detach().contiguous()
    raw = raw.view(torch.uint8) if raw.dim() else raw.reshape(1).view(torch.uint8)
    return {"dtype": str(tensor.dtype).split(".")[1], "shape": list(tensor.shape),
            "bytes": bytes(raw.flatten().tolist()).hex()}


def case(name, state, file):
    return {"name": name, "file": file.hex(), "tensors": {k: tensor_json(v) for k, v in state.items()}}


def rezipped(file, change):
    """The archive with some entries replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(out, "w") as new:
        for item in old.infolist():
            kind = zipfile.ZIP_DEFLATED if change == "deflate" else zipfile.ZIP_STORED
            content = b"big" if change == "big" and item.filename.endswith("byteorder") else old.read(item)
            if not (change == "no storage" and item.filename.endswith("data/0")):
                new.writestr(item.filename, content, kind)
    return out.getvalue()


torch.manual_seed(1)
grid = torch.arange(24).reshape(2, 3, 4)
dtypes = collections.OrderedDict((str(t).split(".")[1], (grid % 2 if t == torch.bool else grid).to(t)) for t in (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64,
    torch.bool))
base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
views = {"whole": base, "turned": base.t(), "column": base[:, 1], "part": base[1:, 2:], "scalar": base[2, 3],
         "empty": base[:0], "parameter": torch.nn.Parameter(base + 1)}
module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
small = {"w": torch.ones(2)}
cases = [case("dtypes", dtypes, saved(dtypes)), case("views", views, saved(views)),
         case("module", module.state_dict(), saved(module.state_dict())),
         case("legacy", views, saved(views, _use_new_zipfile_serialization=False)),
         case("legacy module", module.state_dict(), saved(module.state_dict(), _use_new_zipfile_serialization=False)),
         case("checkpoint", small, saved({"epoch": 3, "loss": 0.5, "args": ["a", None, (1, True)],
                                          "state_dict": small}))]
cases += [case(f"protocol {p}", small, saved(small, pickle_protocol=p)) for p in (2, 3, 4, 5)]


class Own:
    pass


script = io.BytesIO()
torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), script)
refused = {"a module": saved(module), "an object": saved({"x": Own()}), "a function": saved({"x": print}),
           "a set": saved({"x": {1}}), "complex": saved({"x": torch.zeros(1, dtype=torch.complex64)}),
           "no tensors": saved({"epoch": 1, "x": {"y": 2}}), "a list": saved([torch.ones(1)]),
           "expanded": saved({"x": torch.ones(1).expand(1000)}), "sparse": saved({"x": torch.ones(2).to_sparse()}),
           "big": rezipped(saved(small), "big"), "deflated": rezipped(saved(small), "deflate"),
           "no storage": rezipped(saved(small), "no storage"), "script": script.getvalue()}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(
    {"torch": torch.__version__, "cases": cases, "refused": {k: v.hex() for k, v in refused.items()}},
    separators=(",", ":")))
