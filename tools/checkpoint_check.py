#!/usr/bin/env python3
"""Whether every checkpoint of a folder is whole: an independent reading of train/checkpoint.h's files.

    tools/checkpoint_check.py RUN/checkpoints

Each step-NNNNNNNN.safetensors and the parts that it names are read; CRC-32s of tensors and headers are computed anew by
zlib. Files of a save that was not over (parts without the file that names them, unfinished ones) are no checkpoints.
Ends with 1, and a line for each, where one is not whole, or where there is none.
"""
import json
import os
import re
import struct
import sys
import zlib


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return header.pop("__metadata__"), header, data[8 + length:], len(data)


DTYPES = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32", "U64": "u64",
          "U32": "u32", "U8": "u8", "I8": "i8", "BOOL": "bool"}


def shape_text(shape):
    return "(" + ", ".join(map(str, shape)) + ")"


def check(path):
    """Of a file that is whole its length, and the checksum of all but elements."""
    metadata, tensors, data, size = read(path)
    if max((t["data_offsets"][1] for t in tensors.values()), default=0) != len(data):
        raise ValueError("it is shorter or longer than its header says")
    text = ""
    for key in sorted(metadata):
        if key != "crc32":
            text += f"{len(key.encode())}:{key}={len(metadata[key].encode())}:{metadata[key]};"
    for name in sorted(tensors):
        tensor = tensors[name]
        begin, end = tensor["data_offsets"]
        if metadata["crc32." + name] != f"{zlib.crc32(data[begin:end]):08x}":
            raise ValueError(f"{name} does not match its checksum")
        text += f"{len(name.encode())}:{name} {DTYPES[tensor['dtype']]} {shape_text(tensor['shape'])};"
    if metadata["crc32"] != f"{zlib.crc32(text.encode()):08x}":
        raise ValueError("its header does not match its checksum")
    return metadata, size, metadata["crc32"]


def check_all(path):
    metadata, _, _ = check(path)
    ranks = int(metadata.get("shards", 0))
    for rank in range(ranks):
        part = re.sub(r"\.safetensors$", f".rank-{rank}-of-{ranks}.safetensors", path)
        of_part, size, checksum = check(part)
        if of_part["step"] != metadata["step"]:
            raise ValueError(f"{part} is of another step")
        if metadata[f"shard.{rank}"] != f"{size} {checksum}":
            raise ValueError(f"{part} is not the one that is named")


def main():
    folder = sys.argv[1]
    names = [name for name in sorted(os.listdir(folder)) if re.fullmatch(r"step-\d+\.safetensors", name)]
    broken = 0 if names else 1
    for name in names:
        try:
            check_all(os.path.join(folder, name))
        except (OSError, ValueError, KeyError, struct.error) as error:
            print(f"{name}: {error!r}")
            broken = 1
    sys.exit(broken)


if __name__ == "__main__":
    main()
