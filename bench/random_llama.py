#!/usr/bin/env python3
"""A model of random weights for measurements where the real file is too large to carry.

  random_llama.py tokenizer MODEL.gguf FOLDER   the tokenizer of a GGUF file, in Hugging Face's form
  random_llama.py model FOLDER MODEL            a folder with that tokenizer and random weights of SmolLM2-135M's sizes

Both need transformers (bench/get_peers.sh finetune). Exit code: 0, or 2 with one line.
"""
import pathlib
import shutil
import sys


def tokenizer(file, folder):
    import transformers

    file = pathlib.Path(file)
    transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)


def model(folder, target):
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                                      num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
                                      rope_theta=100000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
                                      initializer_range=0.04)
    transformers.LlamaForCausalLM(config).save_pretrained(target)
    for path in pathlib.Path(folder).iterdir():
        shutil.copy(path, target)


def main(arguments):
    known = {"tokenizer": tokenizer, "model": model}
    if len(arguments) != 3 or arguments[0] not in known:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        known[arguments[0]](*arguments[1:])
    except (ImportError, OSError, ValueError) as error:
        print(f"random_llama: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
