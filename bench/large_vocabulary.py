#!/usr/bin/env python3
"""A vocabulary of 151,936 x 1,024 where a binding covers 128 MiB: the same losses on two devices.

  bench/large_vocabulary.py --heddle build/release/bin/heddle [--devices vulkan:0 opencl:0] [--cases lora full q8_0]
      [--steps 4] [--length 64] [--batch 2] [--folder DIR] [--max-binding BYTES]

Writes a Llama of one block with drawn weights and `heddle finetune`s it on a few sentences: `lora` from f32 (the
embedding takes 622 MB, and the head), `tied` and `full` with the embedding as head, `half` from f16 (311 MB), `q8_0`
and `q4_0` from a GGUF file's blocks (165 and 88 MB). The first device's bindings are limited to --max-binding
(HEDDLE_MAX_BINDING; default 134217728), the second one's are not.
Printed is a line for each case: losses (of steps, and held out before and after), the largest relative difference,
peaks, seconds with compilation. Exit code: 0; 1 where losses differ by more than 1e-4; 2 with one line when something
fails. Needs 12 GB of memory for `full`, and 3 GB of disk.
"""
import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

VOCABULARY, WIDTH, HIDDEN, HEADS, KEY_HEADS = 151936, 1024, 512, 8, 2
METHODS = {"lora": "lora", "tied": "lora", "half": "lora", "q8_0": "qlora", "q4_0": "qlora", "full": "full"}


def fail(text):
    print(f"large_vocabulary: {text}", file=sys.stderr)
    sys.exit(2)


def run(command, **variables):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Rows:
    """Drawn numbers of standard deviation 0.02: each row is another stretch of the same 2^18 numbers."""

    def __init__(self, code):
        numbers = random.Random(3)
        values = [numbers.gauss(0, 0.02) for _ in range(1 << 18)]
        self.size = struct.calcsize(code)
        self.bytes = struct.pack(f"<{len(values)}{code}", *values)
        self.ones = struct.pack(f"<{WIDTH}{code}", *([1.0] * WIDTH))

    def write(self, file, shape, seed):
        if len(shape) == 1:
            return file.write(self.ones)
        for row in range(shape[0]):
            start = (row * 7919 + seed * 104729) % ((1 << 18) - shape[1])
            file.write(self.bytes[start * self.size:(start + shape[1]) * self.size])
        return None


def shapes(tied):
    head = WIDTH // HEADS * KEY_HEADS
    block = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (head, WIDTH), "self_attn.v_proj": (head, WIDTH),
             "self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (HIDDEN, WIDTH), "mlp.up_proj": (HIDDEN, WIDTH),
             "mlp.down_proj": (WIDTH, HIDDEN), "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,)}
    all_shapes = {f"model.layers.0.{name}.weight": shape for name, shape in block.items()}
    all_shapes |= {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,)}
    return all_shapes if tied else all_shapes | {"lm_head.weight": (VOCABULARY, WIDTH)}


def write_model(folder, tied, half):
    """config.json and model.safetensors; the tokenizer lies there."""
    rows, header, at = Rows("e" if half else "f"), {}, 0
    for name, shape in shapes(tied).items():
        size = rows.size * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F16" if half else "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for seed, shape in enumerate(shapes(tied).values()):
            rows.write(file, shape, seed)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY,
              "max_position_embeddings": 512, "num_hidden_layers": 1, "num_attention_heads": HEADS,
              "num_key_value_heads": KEY_HEADS,
              "hidden_size": WIDTH, "intermediate_size": HIDDEN, "rms_norm_eps": 1e-5, "tie_word_embeddings": tied}
    (folder / "config.json").write_text(json.dumps(config))


def write_tokenizer(folder):
    """tokenizer.json: bytes under GPT-2's names, and a merge."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {byte: chr(byte) for byte in plain}
    names |= {byte: chr(256 + i) for i, byte in enumerate(byte for byte in range(256) if byte not in names)}
    vocabulary = {names[byte]: byte for byte in range(256)} | {"fo": 256}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": 257, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    text = {"version": "1.0", "added_tokens": [end], "normalizer": None, "pre_tokenizer": level, "decoder": level,
            "post_processor": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "vocab": vocabulary, "merges": ["f o"]}}
    (folder / "tokenizer.json").write_text(json.dumps(text))


def make_model(given, folder, case):
    model = folder / case
    model.mkdir(parents=True, exist_ok=True)
    write_tokenizer(model)
    write_model(model, case in ("tied", "full"), case == "half")
    if METHODS[case] != "qlora":
        return model
    packed = folder / f"{case}.gguf"
    run([given.heddle, "export", str(model), "--type", case, "-o", str(packed)])
    (model / "model.safetensors").unlink()
    return packed


def finetune(given, folder, model, case, device, **variables):
    data = folder / "facts.jsonl"
    data.write_text("".join(json.dumps({"instruction": f"what follows {i}?", "output": f"{i + 1} follows {i}."}) + "\n"
                            for i in range(24)))
    out, start = tempfile.mkdtemp(dir=folder), time.monotonic()
    text = run([given.heddle, "finetune", str(model), "--data", str(data), "--template", "plain", "--method",
                METHODS[case], "--length", str(given.length), "--batch", str(given.batch), "--steps", str(given.steps),
                "--lr", "1e-3", "--rank", "8", "--validation", "0.1", "--eval-every", str(given.steps), "--sample-every",
                "1000000", "--device", device, "--out", out, "--json"],
               **variables)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    steps = [line["loss"] for line in lines if line.get("event") == "step"]
    done = [line for line in lines if line.get("event") == "done"][0]
    losses = steps + [done["validation_loss_before"], done["validation_loss"]]
    return losses, done["peak_device_bytes"], time.monotonic() - start


def compare(given, folder, case):
    model = make_model(given, folder, case)
    limited, other = given.devices
    losses, peak, seconds = finetune(given, folder, model, case, limited, HEDDLE_MAX_BINDING=str(given.max_binding))
    expected, peak_other, seconds_other = finetune(given, folder, model, case, other)
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected))
    print(json.dumps({"case": case, limited: losses, other: expected, "difference": worst,
                      "peaks_mib": [peak >> 20, peak_other >> 20], "seconds": [round(seconds, 1), round(seconds_other, 1)]}), flush=True)
    return worst <= 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--devices", nargs=2, default=["vulkan:0", "opencl:0"])
    parser.add_argument("--cases", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--folder")
    parser.add_argument("--max-binding", type=int, default=1 << 27)
    given = parser.parse_args()
    given.heddle = str(pathlib.Path(given.heddle).resolve())
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        right = [compare(given, pathlib.Path(folder), case) for case in given.cases]
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
