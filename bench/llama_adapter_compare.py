#!/usr/bin/env python3
"""Adapters and merged models of Heddle in llama.cpp: greedy texts and perplexities of both on the same files.

  bench/llama_adapter_compare.py --heddle build/release/bin/heddle --llama LLAMA_SOURCES --llama-build LLAMA_BUILD
      --model smollm2.gguf --adapter runs/mine/adapter --adapter-gguf runs/mine/adapter.gguf [--type f32] [--device D]

The user's build of llama.cpp (libllama.so in LLAMA_BUILD/bin, or LLAMA_BUILD is the .so of PyPI's xllamacpp, with
sources of the same version) gets a small program, bench/llama/greedy.cpp. The base is written in --type first (default
f32: llama.cpp rounds what it multiplies with packed blocks to 8 bits; "same": the file as it is). Compared are, for each
of ten prompts: the base, base + adapter, and the merged model (`heddle export --adapter`) in both programs. Printed is a
line each: equal texts, and the largest relative difference of perplexities of the prompts. Exit code: 0; 1 where fewer
than 9 of 10 texts are equal or perplexities differ by more than 1e-3; 2 with one line when something is missing.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile

from llama_program import program

PROMPTS = [
    "The capital of France is", "Once upon a time there was a small", "The three primary colours are",
    "Water boils at a temperature of", "To make a cup of tea, first", "The largest planet in our solar system is",
    "A list of fruits:", "My favourite season is", "The opposite of hot is", "In 1969, people first",
]


def fail(text):
    print(f"llama_adapter_compare: {text}", file=sys.stderr)
    sys.exit(2)


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **more)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}")
    return done.stdout


def of_llama(given, greedy, model, adapter):
    out = run([greedy, model, adapter, str(given.tokens)], input="\n".join(PROMPTS) + "\n")
    rows = [line.split("\t") for line in out.splitlines()]
    return [(math.exp(-float(score)), tokens) for score, tokens in rows]


def of_heddle(given, model, adapter):
    common = [given.heddle, "generate", model, "--json"] + (["--adapter", adapter] if adapter != "-" else [])
    common += ["--device", given.device] if given.device else []
    made = []
    for prompt in PROMPTS:
        text = json.loads(run(common + ["--prompt", prompt, "--greedy", "--tokens", str(given.tokens)]))["text"]
        scored = run(common + ["--prompt", prompt, "--perplexity", "2048", "--tokens", "2048"])
        made.append((json.loads(scored)["perplexity"], text))
    return made


def texts(given, model, rows):
    """llama.cpp's tokens as texts, by the vocabulary of the file (byte pairs)."""
    import gguf
    field = gguf.GGUFReader(model).fields["tokenizer.ggml.tokens"]
    names = [bytes(field.parts[i]).decode("utf-8") for i in field.data]
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in visible}
    byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in visible)})
    joined = [bytes(byte_of[c] for t in tokens.split() for c in names[int(t)]) for _, tokens in rows]
    return [text.decode("utf-8", "replace") for text in joined]


def compare(given, greedy, what, model, adapter, adapter_gguf):
    theirs, ours = of_llama(given, greedy, model, adapter_gguf), of_heddle(given, model, adapter)
    equal = sum(a == b for a, (_, b) in zip(texts(given, model, theirs), ours))
    worst = max(abs(a - b) / a for (a, _), (b, _) in zip(theirs, ours))
    print(f"{what}: {equal} of {len(PROMPTS)} texts equal, perplexities within {worst:.2e}", flush=True)
    return [text for _, text in ours], equal >= 9 and worst <= 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["heddle", "llama", "llama-build", "model", "adapter", "adapter-gguf"]:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--type", default="f32", help="of the base and the merged model; same: as the base has it")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--device")
    given = parser.parse_args()
    try:
        import gguf  # noqa: F401
    except ImportError:
        fail("gguf is not here (bench/get_peers.sh finetune, and its venv's python): skipped")
    with tempfile.TemporaryDirectory() as folder:
        greedy = program("greedy", given.llama, given.llama_build, f"{folder}/greedy", fail)
        kind = [] if given.type == "same" else ["--type", given.type]
        base, merged = f"{folder}/base.gguf", f"{folder}/merged.gguf"
        run([given.heddle, "export", given.model, "-o", base] + kind)
        run([given.heddle, "export", given.model, "--adapter", given.adapter, "-o", merged] + kind)
        plain, good = compare(given, greedy, "base", base, "-", "-")
        tuned, good2 = compare(given, greedy, "base + adapter", base, given.adapter, given.adapter_gguf)
        _, good3 = compare(given, greedy, "merged", merged, "-", "-")
        print(f"the adapter changes {sum(a != b for a, b in zip(plain, tuned))} of {len(PROMPTS)} texts")
    sys.exit(0 if good and good2 and good3 else 1)


if __name__ == "__main__":
    main()
