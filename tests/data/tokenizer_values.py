#!/usr/bin/env python3
"""Writes tokenizer_values.json: how GPT-2's pattern cuts text (regex), and what byte-pair encoding learns and makes of
it (tokenizers and tiktoken, which have to agree).

Run once: python tests/data/tokenizer_values.py [tinyshakespeare/input.txt]; needs regex, tokenizers and tiktoken from PyPI.
"""
import json
import pathlib
import random
import sys
import zlib

import regex
import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CORPUS = """The loom's heddles lift the warp; they've lifted it for 5,000 years, and they'll lift it again.
A weaver who lifts every other thread weaves plain cloth. We're told that twill needs four heddles, and that damask needs more than forty.
  Der Weber hebt die Kettfäden; schöne Größen, süße Früchte.  Le tisserand lève la chaîne, déjà tissée à l'été.
織機の綜絖は経糸を持ち上げる。経糸と緯糸。 \
Ткач поднимает нити основы, и нити утка проходят. ١٢٣ خيوط
\tfor (int i = 0; i < 10; ++i) { threads[i] = lift(threads[i]); }\r\n\n\n   don't  DON'T  can't  it'll   end   \n"""
STRINGS = [
    "", " ", "  ", "\n", " \n ", "a", " a", "  a", "a ", "a  ", "hello world",
    "I'm sure they've said we'll, he'd, it's, don't, you're", "I'M THEY'VE IT'S", "'s 's''s '", "x'sy 'll'",
    "3.14 ² ½ Ⅷ ٣ 四 x2y", "e\u0301te\u0301 nai\u0308ve",
    "a\u00a0b \u00a0 c\u3000d\u2003\u2003e\u200bf\u180eg\ufeffh\u0085i\u2028j", "\x1c\x1d\x1e\x1f x",
    "👩\u200d👩\u200d👧 🇩🇪!", "हिन्दी ไทย 한국어",
    "tabs\t\tand\r\n\r\nlines   \n  x", "<|endoftext|> is text", "\u0378\ue000\U0010fffe",
    "snake_case __init__ a-b--c ...  !!?", "a" * 50, "ababababababab" * 5, CORPUS,
]


def random_strings(count):
    draw = random.Random(1)
    parts = list(" \n\t'as0!") + ["'ll", "\u00a0", "é", "ß", "漢", "٣", "²", "\u0301", "😀", "\u2028", "ǅ", "ʰ", "ª", "€"]
    return ["".join(draw.choices(parts, k=draw.randint(1, 24))) for _ in range(count)]


def train(text, vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), min_frequency=2, show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return tokenizer, [" ".join(merge) for merge in model["merges"]], model["vocab"]


def byte_of_printable():
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    rest = [b for b in range(256) if b not in plain]
    return {**{chr(b): b for b in plain}, **{chr(256 + i): b for i, b in enumerate(rest)}}


def encodings(vocabulary):
    tokenizer, merges, vocab = train(CORPUS, vocabulary)
    alphabet = byte_of_printable()
    ranks = {bytes(alphabet[c] for c in token): number for token, number in vocab.items()}
    second = tiktoken.Encoding("test", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    result = []
    for text in STRINGS + random_strings(100):
        tokens = tokenizer.encode(text).ids
        assert tokens == second.encode(text, disallowed_special=()), text
        result.append([text, tokens])
    return merges, result


def shakespeare(path):
    text = pathlib.Path(path).read_text()
    tokenizer, merges, _ = train(text, 1256)
    tokens = tokenizer.encode(text).ids
    return {"merges_crc": zlib.crc32("".join(m + "\n" for m in merges).encode()), "tokens": len(tokens), "first": tokens[:50]}


words = [[text, [len(word.encode()) for word in regex.findall(PATTERN, text)]] for text in STRINGS + random_strings(300)]
merges, encoded = encodings(400)
values = {"corpus": CORPUS, "words": words, "merges": merges, "encoded": encoded}
if len(sys.argv) > 1:
    values["shakespeare"] = shakespeare(sys.argv[1])
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(values, separators=(",", ":")))
