#!/usr/bin/env python3
"""Tokens and logits of Heddle, of llama.cpp and of PEFT on the same GGUF files.

  bench/llama_logits_compare.py --heddle build/release/bin/heddle --llama LLAMA_SOURCES --llama-build LLAMA_BUILD
      --model smollm2.gguf [--type f32] [--device D] [--tokens 128]
  bench/llama_logits_compare.py --heddle ... --llama ... --llama-build ... families
  bench/llama_logits_compare.py --heddle ... peft --model smollm2.gguf --adapter runs/mine/adapter [--device D]

The user's build of llama.cpp (libllama.so in LLAMA_BUILD/bin, or LLAMA_BUILD is the .so of PyPI's xllamacpp, with
sources of the same version) gets a small program, bench/llama/logits.cpp: one thread, cache and attention in f32. A
model is written in --type first (llama.cpp rounds what it multiplies with packed blocks to 8 bits; default same: the
file as it is). families: drawn models of tests/nn/llama_families_values.json beside the SentencePiece tokenizer of
tests/data/tokenizer_json_values.json as folders of Hugging Face, which `heddle export` turns into GGUF files. peft: the
model with an adapter in transformers and PEFT, which make f32 of the file's blocks; needs torch, transformers and peft
(bench/get_peers.sh finetune). Printed for each file: how many texts have equal tokens, and of their logits the distance
(the root of the sum of squares of differences over that of the other's logits) and the largest difference over the
largest logit. Exit code: 0; 1 where a text differs or the distance is above 1e-3 (Gemma: 5e-3; PEFT: 1e-4); 2 with one line when
something is missing.
"""
import argparse
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

from llama_compare import PROMPTS, TEXT
from llama_program import program

try:
    import numpy as np
except ImportError:
    print("llama_logits_compare: numpy is not here (bench/get_peers.sh, and its venv's python): skipped", file=sys.stderr)
    sys.exit(2)

ROOT = pathlib.Path(__file__).resolve().parent.parent
WINDOWS = {"phi3": 64}  # llama.cpp reads Phi 3's window and does without: one that hides nothing


def fail(text):
    print(f"llama_logits_compare: {text}", file=sys.stderr)
    sys.exit(2)


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, **more)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}")
    return done.stdout


def program_of(given, folder):
    return program("logits", given.llama, given.llama_build, f"{folder}/logits", fail)


def of_llama(given, logits, model, texts, folder):
    out = f"{folder}/theirs"
    run([logits, model, str(given.tokens), out], input=b"".join(struct.pack("<i", len(t)) + t for t in texts))
    data = pathlib.Path(out).read_bytes()
    vocabulary, at, made = struct.unpack_from("<i", data)[0], 4, []
    for _ in texts:
        count = struct.unpack_from("<i", data, at)[0]
        tokens = np.frombuffer(data, "<i4", count, at + 4)
        at += 4 + 4 * count
        made.append((tokens.tolist(), np.frombuffer(data, "<f4", count * vocabulary, at).reshape(count, vocabulary)))
        at += 4 * count * vocabulary
    return made


def of_heddle(given, model, texts, folder):
    made = []
    for text in texts:
        pathlib.Path(f"{folder}/text").write_bytes(text)
        line = run([given.heddle, "generate", model, "--prompt-file", f"{folder}/text", "--logits", f"{folder}/ours.npy",
                    "--tokens", str(given.tokens), "--json"] + (["--device", given.device] if given.device else []) +
                   (["--adapter", given.adapter] if given.adapter else []))
        made.append((json.loads(line)["prompt"], np.load(f"{folder}/ours.npy")))
    return made


def of_peft(given, texts):
    try:
        import torch
        import transformers
        from peft import PeftModel
    except ImportError as error:
        fail(f"{error.name} is not here (bench/get_peers.sh finetune, and its venv's python): skipped")
    model, made = pathlib.Path(given.model), []
    tokenizer = transformers.AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
    base = transformers.AutoModelForCausalLM.from_pretrained(model.parent, gguf_file=model.name, dtype=torch.float32)
    tuned = PeftModel.from_pretrained(base, given.adapter).eval()
    with torch.no_grad():
        for text in texts:
            tokens = tokenizer(text.decode(), add_special_tokens=False)["input_ids"][: given.tokens]
            made.append((tokens, tuned(input_ids=torch.tensor([tokens])).logits[0].numpy()))
    return made


def compare(given, theirs, what, model, texts, folder, bound=1e-3):
    ours = of_heddle(given, model, texts, folder)
    equal, square, size, worst, most, tokens = 0, 0.0, 0.0, 0.0, 0.0, 0
    for text, (a, x), (b, y) in zip(texts, theirs, ours):
        if a != b:
            print(f"  {text[:60]!r}: {b[:24]} here, {a[:24]} there")
            continue
        equal, tokens = equal + 1, tokens + len(a)
        difference = y.astype(np.float64) - x
        square, size = square + float((difference**2).sum()), size + float((x.astype(np.float64)**2).sum())
        worst, most = max(worst, float(abs(difference).max(initial=0))), max(most, float(abs(x).max(initial=0)))
    distance = math.sqrt(square / size) if size else math.inf
    print(f"{what}: tokens of {equal} of {len(texts)} texts equal; logits of {tokens} tokens: distance {distance:.2e}, "
          f"largest difference {worst / most if most else math.inf:.2e} of the largest", flush=True)
    return equal == len(texts) and distance <= bound


def weight(name, shape):
    """As weight() of tests/nn/llama_families_values.py."""
    with np.errstate(over="ignore"):
        seed = np.uint32(2166136261)
        for byte in name.encode():
            seed = (seed ^ np.uint32(byte)) * np.uint32(16777619)
        h = np.arange(math.prod(shape), dtype=np.uint32) + seed
        for shift, factor in ((16, 2246822507), (13, 3266489909), (16, 1)):
            h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    u = (h >> np.uint32(8)).astype(np.float64) / 2**24
    values = (u - 0.5) * 0.7 if len(shape) == 2 else u - 0.5 if name.endswith(".bias") else u + 0.5
    return values.astype("<f4").reshape(shape)


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in tensors.values()))


def tokenizer_json(model, in_front):
    """A SentencePiece model as transformers converts it; types: 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte."""
    pieces, types = model["pieces"], model["types"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece, score, kind in zip(pieces, model["scores"], types):
        ways = [(piece[:i], piece[i:]) for i in range(1, len(piece))] if kind == 1 else []
        merges += [(score, way) for way in ways if all(types[vocabulary.get(part, 0)] == 1 for part in way)]
    merges.sort(key=lambda merge: (merge[0], len(merge[1][0]), len(merge[1][1])), reverse=True)
    mark = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    back = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    return {
        "version": "1.0", "truncation": None, "padding": None, "pre_tokenizer": None,
        "added_tokens": [{"id": i, "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                          "special": kind != 4} for i, (piece, kind) in enumerate(zip(pieces, types)) if kind in (2, 3, 4)],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, mark]} if in_front else mark,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                                    {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence",
                    "decoders": back + ([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if in_front else [])},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "vocab": vocabulary,
                  "merges": [list(way) for _, way in merges]}}


def folder_of(case, model, path):
    """A case of tests/nn/llama_families_values.json as the GGUF files of its family can say it."""
    name, config, shapes = case["name"], dict(case["config"]), dict(case["shapes"])
    config["vocab_size"] = len(model["pieces"]) + 10
    if name == "qwen2":
        config["use_sliding_window"] = False
    if name == "mistral":
        config["sliding_window"] = None
    if name in WINDOWS:
        config["sliding_window"] = WINDOWS[name]
    if name.startswith("gemma"):
        config["query_pre_attn_scalar"] = config["head_dim"]
    if name == "gemma3":
        config["num_hidden_layers"] = 7
        del config["layer_types"]
        shapes.update({key.replace("layers.0.", f"layers.{i}."): shape for key, shape in case["shapes"].items()
                       for i in range(3, 7) if "layers.0." in key})
        config["rope_parameters"]["sliding_attention"]["rope_theta"] = 40.0
    for key in ("model.embed_tokens.weight", "lm_head.weight"):
        if key in shapes:
            shapes[key] = [config["vocab_size"], shapes[key][1]]
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer_json(model, not name.startswith("gemma"))))
    write_safetensors(path / "model.safetensors", {key: weight(key, shape) for key, shape in shapes.items()})


def sentence_piece_of(path):
    """The tokenizer of a GGUF file, such as llama.cpp's models/ggml-vocab-llama-spm.gguf."""
    import gguf
    fields = gguf.GGUFReader(path).fields
    pieces, scores, types = (fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "scores", "token_type"))
    return {"pieces": pieces, "scores": scores, "types": types}


def families(given, folder):
    logits = program_of(given, folder)
    values = json.loads((ROOT / "tests/data/tokenizer_json_values.json").read_text())
    if given.vocabulary:
        values["sentencepiece"] = sentence_piece_of(given.vocabulary)
    texts = [t.encode() for t in values["texts"][:-1:2] + values["random"][:8] if t and "\x00" not in t and "<tool>" not in t]
    good = True
    for case in json.loads((ROOT / "tests/nn/llama_families_values.json").read_text())["cases"]:
        if given.only and case["name"] not in given.only.split(","):
            continue
        path = pathlib.Path(folder) / case["name"]
        folder_of(case, values["sentencepiece"], path)
        run([given.heddle, "export", str(path), "-o", f"{path}.gguf", "--type", "f32"])
        theirs = of_llama(given, logits, f"{path}.gguf", texts, folder)
        bound = 5e-3 if case["name"].startswith("gemma") else 1e-3  # llama.cpp's GELU is a table in 16 bits
        good = compare(given, theirs, case["name"], f"{path}.gguf", texts, folder, bound) and good
    return good


def one_model(given, folder):
    texts, name = [text.encode() for text in PROMPTS + [TEXT]], pathlib.Path(given.model).name
    if given.part == "peft":
        return compare(given, of_peft(given, texts), f"{name} with an adapter", given.model, texts, folder, 1e-4)
    model = f"{folder}/model.gguf"
    run([given.heddle, "export", given.model, "-o", model] + ([] if given.type == "same" else ["--type", given.type]))
    theirs = of_llama(given, program_of(given, folder), model, texts, folder)
    return compare(given, theirs, f"{name} as {given.type}", model, texts, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", default="model", choices=("model", "families", "peft"))
    parser.add_argument("--heddle", required=True)
    for name in ["llama", "llama-build", "model", "adapter", "device"]:
        parser.add_argument(f"--{name}")
    parser.add_argument("--vocabulary", help="families: a GGUF file whose SentencePiece tokenizer they get instead")
    parser.add_argument("--only", help="families: names, with commas between")
    parser.add_argument("--type", default="same", help="of the model; same: as the file has it")
    parser.add_argument("--tokens", type=int, default=60, help="of each text at most")
    given = parser.parse_intermixed_args()
    needed = {"model": ("model", "llama", "llama_build"), "families": ("llama", "llama_build"), "peft": ("model", "adapter")}
    for name in needed[given.part]:
        if not getattr(given, name):
            fail(f"{given.part} needs --{name.replace('_', '-')}")
    if given.adapter and given.part != "peft":
        fail("--adapter is for peft; bench/llama_adapter_compare.py has those of llama.cpp")
    with tempfile.TemporaryDirectory() as folder:
        good = families(given, folder) if given.part == "families" else one_model(given, folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
