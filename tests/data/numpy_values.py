#!/usr/bin/env python3
"""Writes numpy_values.json: files as NumPy writes them (hexadecimal), and what is in them.

Run once: python tests/data/numpy_values.py; needs NumPy.
"""
import io
import json
import pathlib
import unittest.mock

import numpy as np


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def case(array, version=None):
    return {"file": npy(array, version).hex(), "dtype": array.dtype.kind + str(array.dtype.itemsize),
        "shape": array.shape, "values": array.astype(float).ravel().tolist()}


grid = np.arange(24).reshape(2, 3, 4) - 7
cases = [case((grid % 2 if kind == "b1" else np.abs(grid) if kind == "u1" else grid * 0.25 if kind[0] == "f"
    else grid).astype(kind)) for kind in ("f2", "f4", "f8", "i1", "u1", "i4", "i8", "b1")]
cases += [case(np.asfortranarray(grid.astype("f4"))), case(grid.astype(">i4")),
    case(np.asfortranarray(grid.astype(">f8"))), case(np.array(2.5)), case(np.zeros((0, 3), "f4")),
    case(grid.astype("i8"), (2, 0)),
          case(grid.astype("f4")[:, ::2], (3, 0))]
refused = {"complex": npy(np.zeros(2, "c8")).hex(), "strings": npy(np.array(["ab"])).hex(),
    "structured": npy(np.zeros(2, [("a", "i4")])).hex(), "i2": npy(np.zeros(2, "i2")).hex()}
def archive(save):
    out = io.BytesIO()
    save(out, images=grid.astype("f4"), labels=np.array([3, 1], "i4"))
    return out.getvalue().hex()


archives = {"stored": archive(np.savez), "deflated": archive(np.savez_compressed)}
# As NumPy writes what is larger than 4 GB: everything is, when the limit is 16 bytes.
with unittest.mock.patch("zipfile.ZIP64_LIMIT", 16):
    archives |= {"stored_zip64": archive(np.savez), "deflated_zip64": archive(np.savez_compressed)}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps({"arrays": cases, "refused": refused, "archives": archives}, separators=(",", ":")))
