#!/usr/bin/env python3
"""A GGUF file of a Llama in Heddle and in llama.cpp (PyPI's xllamacpp), in turns.

  python3 bench/llama_compare.py --heddle build/release/bin/heddle --model SmolLM2-135M-Instruct.Q4_1.gguf --device opencl:0
  python3 bench/llama_compare.py --heddle ... --model ... greedy --exact          (needs numpy and gguf as well)
  python3 bench/llama_compare.py --heddle ... --model ... perplexity --text docs/design.md

greedy: the likeliest 32 tokens behind ten prompts, text against text. llama.cpp rounds activations to 8 bits before it multiplies them with packed
weights, Heddle does not; with --exact llama.cpp gets the same weights written out as F32, so that neither rounds. speed: tokens a second of decoding,
and of a prompt of about 256 tokens, in rounds of one after the other on the same threads; medians, the ratio Heddle / llama.cpp with its range over
the rounds, and Heddle's resident memory beside the file's size. perplexity: of the first tokens of a text in windows, every token given those before
it. Exit code: 0, or 2 with one line when something is missing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROMPTS = [
    "The capital of France is",
    "Once upon a time, there was a little",
    "Water boils at a temperature of",
    "The three primary colors are",
    "To make a cup of tea, first",
    "In 1969, the first human beings landed on",
    "A weaver uses a loom to",
    "The largest planet in our solar system is",
    "def add(a, b):\n    return",
    "My favourite season is autumn because",
]
TEXT = (
    "A loom is a machine for weaving cloth. Its frame holds the warp, the threads that run along the cloth, under tension, so that the weft can be passed over "
    "and under them. A heddle lifts some of the warp threads and leaves the others down, which opens a gap that is called the shed. The weaver throws the "
    "shuttle through the shed, beats the new thread against the cloth, and changes the shed for the next row. Simple looms have two heddles, and give a plain "
    "weave in which every thread passes over one and under one. With four heddles or more there are twills and satins, in which threads pass over several at a "
    "time, and patterns that repeat over many rows. At the beginning of the nineteenth century Joseph Marie Jacquard built a loom that read its pattern from "
    "cards with holes. Each card was one row, and each hole a thread that was to be lifted. Long chains of cards made it possible to weave pictures, and a "
    "pattern could be changed without rebuilding the loom. The idea of giving a machine its orders on cards stayed, and computers were fed with "
    "them for decades."
)


def fail(text):
    print(f"llama_compare: {text}", file=sys.stderr)
    sys.exit(2)


class LlamaCpp:
    """A server within this process."""

    def __init__(self, model, threads, context=2048):
        try:
            import xllamacpp
        except ImportError:
            fail("PyPI's xllamacpp is not installed")
        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_parallel, p.n_gpu_layers, p.verbosity = model, context, 1, 0, 0
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
        self.server = xllamacpp.Server(p)

    def complete(self, prompt, tokens, cache=False, **more):
        return self.server.handle_completions({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "top_k": 1, "cache_prompt": cache, **more})


class Heddle:
    def __init__(self, args):
        self.base = [args.heddle, "generate", args.model, "--json"] + (["--device", args.device] if args.device else [])

    def run(self, *more):
        """What it prints, its peak of resident memory, and the median of what was resident in the last half of its run, in bytes."""
        process = subprocess.Popen(self.base + list(more), stdout=subprocess.PIPE, text=True)
        seen = []
        while process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/statm") as f:
                    seen.append(int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
            except (OSError, IndexError, ValueError):
                pass
            time.sleep(0.02)
        out = process.stdout.read()
        if process.returncode != 0:
            fail(f"heddle ended with {process.returncode}")
        seen = [s for s in seen if s > 0] or [0]
        return json.loads(out.splitlines()[-1]), max(seen), statistics.median(seen[len(seen) // 2:])


def as_f32(model):
    import gguf
    reader = gguf.GGUFReader(model)
    handle, path = tempfile.mkstemp(suffix=".gguf")
    os.close(handle)
    writer = gguf.GGUFWriter(path, "llama")
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"):
            kind = field.types[0]
            writer.add_key_value(key, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def greedy(args):
    heddle = Heddle(args)
    ours = [heddle.run("--prompt", prompt, "--tokens", "32", "--greedy")[0]["text"] for prompt in PROMPTS]
    for kind in ["as it is"] + (["as F32"] if args.exact else []):
        path = args.model if kind == "as it is" else as_f32(args.model)
        llama = LlamaCpp(path, args.threads)
        theirs = [llama.complete(prompt, 32)["choices"][0]["text"] for prompt in PROMPTS]
        del llama
        if path != args.model:
            os.unlink(path)
        equal = [a == b for a, b in zip(ours, theirs)]
        print(f"greedy, 32 tokens, the file {kind}: {sum(equal)} of {len(equal)} equal")
        for prompt, same, a, b in zip(PROMPTS, equal, ours, theirs):
            if not same:
                at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                print(f"  {prompt!r}: apart from character {at}: {a[at:at + 30]!r} here, {b[at:at + 30]!r} there")


def speed(args):
    heddle, llama = Heddle(args), LlamaCpp(args.model, args.threads)
    rounds = {"decode": [], "prompt": []}
    peak = resident = 0
    prompt = TEXT
    for _ in range(args.rounds):
        made, high, now = heddle.run("--prompt", PROMPTS[1], "--tokens", "128", "--greedy", "--repeat", "3")
        peak, resident = max(peak, high), max(resident, now)
        ours = statistics.median((r["tokens"] - 1) / (r["seconds"] - r["first_token_seconds"]) for r in made["runs"][1:])
        theirs = statistics.median(llama.complete(PROMPTS[1], 128)["timings"]["predicted_per_second"] for _ in range(2))
        rounds["decode"].append((ours, theirs))
        made, high, now = heddle.run("--prompt", prompt, "--tokens", "2", "--greedy", "--repeat", "5")
        peak, resident = max(peak, high), max(resident, now)
        ours = statistics.median(made["prompt_tokens"] / r["first_token_seconds"] for r in made["runs"][1:])
        answers = [llama.complete(prompt, 2) for _ in range(4)]
        if answers[0]["usage"]["prompt_tokens"] != made["prompt_tokens"]:
            print(f"the prompt has {made['prompt_tokens']} tokens here, {answers[0]['usage']['prompt_tokens']} there")
        theirs = statistics.median(a["timings"]["prompt_per_second"] for a in answers)
        rounds["prompt"].append((ours, theirs))
    for name, pairs in rounds.items():
        ratios = [a / b for a, b in pairs]
        what = "decoding 128 tokens" if name == "decode" else f"a prompt of {made['prompt_tokens']} tokens"
        print(f"{what}: {statistics.median(a for a, _ in pairs):.1f} tokens/s here, {statistics.median(b for _, b in pairs):.1f} there, "
              f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    size = os.path.getsize(args.model)
    print(f"resident memory: {resident / 1e6:.0f} MB at work, {peak / 1e6:.0f} MB at most; "
          f"the file has {size / 1e6:.0f} MB: {resident / size:.2f}, {peak / size:.2f}")


def perplexity(args):
    made, _, _ = Heddle(args).run("--prompt-file", args.text, "--perplexity", str(args.window), "--tokens", str(args.tokens))
    print(f"perplexity here: {made['perplexity']:.4f} over {made['scored_tokens']} tokens in windows of {args.window}")
    from llama_native import perplexity as native
    theirs, count = native(args.model, made["prompt"], args.window, args.threads)
    print(f"perplexity there: {theirs:.4f} over {count} tokens; here / there {made['perplexity'] / theirs:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", default=["greedy", "speed"], help="greedy, speed, perplexity; default: the first two")
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--exact", action="store_true", help="greedy against the same weights as F32, too")
    parser.add_argument("--text", help="perplexity: a file")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=4096, help="perplexity: so many of the text")
    args = parser.parse_intermixed_args()
    if not os.path.exists(args.model):
        fail(f"{args.model} is not there")
    for part in args.part:
        if part not in ("greedy", "speed", "perplexity"):
            fail(f"there is no part '{part}'")
        if part == "perplexity" and not args.text:
            fail("perplexity needs --text")
        globals()[part](args)


if __name__ == "__main__":
    main()
