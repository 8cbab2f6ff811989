#!/usr/bin/env python3
"""Writes tokenizer_json_values.json: small tokenizers with the pipelines of families of language models, trained on a
few sentences, and what Hugging Face's tokenizers makes of texts with them; how regular expressions of these families cut
texts; and a SentencePiece model with what sentencepiece makes of texts.

Run once: python tests/data/tokenizer_json_values.py; needs tokenizers, sentencepiece and protobuf from PyPI.
"""
import io
import json
import pathlib
import random
import zlib

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
UPPER, LOWER, SHORT = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
FRONT, BACK = r"[^\r\n\p{L}\p{N}]?", r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = "|".join([FRONT + UPPER + "*" + LOWER + "+" + SHORT, FRONT + UPPER + "+" + LOWER + "*" + SHORT, r"\p{N}{1,3}", BACK])
TEKKEN = "|".join([FRONT + UPPER + "*" + LOWER + "+", FRONT + UPPER + "+" + LOWER + "*", r"\p{N}", BACK])

CORPUS = """The loom's heddles lift the warp; they've lifted it for 5,000 years, and they'll lift it again in 2025.
A weaver who lifts every other thread weaves plain cloth. We're told that twill needs four heddles, and damask more than forty.
  Der Weber hebt die Kettfäden; schöne Größen, süße Früchte.  Le tisserand lève la chaîne, déjà tissée à l'été.
織機の綜絖は経糸を持ち上げる。経糸と緯糸。
Ткач поднимает нити основы, и нити утка проходят. ١٢٣ خيوط
\tfor (int i = 0; i < 10; ++i) { threads[i] = lift(threads[i]); }\r\n\n\n   don't  DON'T  can't  it'll   end   \n"""
TEXTS = [
    "", " ", "  ", "\n", " \n ", "a", " a", "  a", "a ", "the loom's heddles lift the warp", "Hello, wide World!",
    "I'm sure THEY'VE said we'LL, he'd, it's, DON'T, you're a'ſt 'ſ 'S''", "3.14 ² ½ Ⅷ ٣ 四 x2y 1234567 00",
    "e\u0301te\u0301 nai\u0308ve \u1100\u1161\u11a8 \u212b a\u0323\u0307 a\u0307\u0323 \u0958 \U0001d15e",
    "a\u00a0b \u00a0 c\u3000d\u2003\u2003e\u200bf\ufeffh\u0085i\u2028j", "\x00\x01\x1c\x1f\x7f x",
    "👩\u200d👩\u200d👧 🇩🇪!", "हिन्दी ไทย 한국어 עברית \u202eabc", "schöne Größen 織機 нити خيوط",
    "tabs\t\tand\r\n\r\nlines   \n  x \r\n\r\r \t\n", "\u0378\ue000\U0010fffe \ufffd", "▁ ▁▁a _▁ x▁y",
    "snake_case __init__ a-b--c ...  !!?\n/ // path/to/x", "camelCase HTTPServer ǅungla ʰx漢A漢 aªb",
    "<s>the<s> loom</s>", "the <|a|>  loom <|b|>lift  <|b|>  \n x<|a|><|a|>", "<tool>the</tool> <tool> \n\n\n x\n\nthe",
    "<0x0A> <unk> <0xZZ>", "a" * 50, "                    x", "abababab" * 5, CORPUS,
]


def random_texts(count):
    draw = random.Random(1)
    parts = list(" \n\r\t'asTE0!/▁éß漢٣²😀ǅʰª€") + ["'ll", "'RE", "  ", "the", "12", "lift", "\n\n", "<|a|>", "<|b|>", "<tool>"]
    parts += ["\u00a0", "\u0301", "\u0323", "\u2028"]
    return ["".join(draw.choices(parts, k=draw.randint(1, 24))) for _ in range(count)]


RANDOM = random_texts(200)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def added(tokenizer):
    tokenizer.add_special_tokens([AddedToken("<|a|>", special=True, normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<|b|>", special=True, normalized=False, lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("</tool>", normalized=True)])
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False)])
    return tokenizer


def begins(tokenizer, name, end=None):
    names = [n for n in (name, end) if n]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{name} $A" + (f" {end}" if end else ""), special_tokens=[(n, tokenizer.token_to_id(n)) for n in names])
    return tokenizer


def with_word(tokenizer, word):
    """A token that no merge makes: a piece that is one stays whole."""
    file = json.loads(tokenizer.to_str())
    file["model"]["vocab"][word] = tokenizer.get_vocab_size()
    return Tokenizer.from_str(json.dumps(file))


def byte_level(pieces, normalizer=None, vocabulary=340, word=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pieces
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return added(with_word(tokenizer, word) if word else tokenizer)


def split(pattern):
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), to_bytes])


def without_added(tokenizer, names):
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] not in names]
    return Tokenizer.from_str(json.dumps(file))


def pairs_of_characters(special=("<unk>", "<s>", "</s>"), alphabet=50, fallback=True):
    """SentencePiece's kind; rare characters are bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=alphabet + 310 * fallback + 50, limit_alphabet=alphabet, show_progress=False,
        special_tokens=list(special) + (BYTES if fallback else [])))
    return without_added(tokenizer, BYTES)


def spaces_back(strip):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def llama2():
    tokenizer = pairs_of_characters()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = spaces_back(True)
    return added(begins(tokenizer, "<s>"))


def mistral():
    tokenizer = pairs_of_characters()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    tokenizer.decoder = spaces_back(True)
    return added(begins(tokenizer, "<s>", "</s>"))


def gemma():
    tokenizer = pairs_of_characters(("<pad>", "</s>", "<s>", "<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = spaces_back(False)
    tokenizer.add_tokens([AddedToken("▁▁▁", normalized=False)])
    return added(begins(tokenizer, "<s>"))


def unknown_pairs():
    tokenizer = pairs_of_characters(("<unk>", "<s>"), 30, False)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(",", "merged_with_next"), pre_tokenizers.Digits(False), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    return added(tokenizer)


def unigram(fallback):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator([CORPUS[:300]], trainers.UnigramTrainer(
        vocab_size=150, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    if fallback:
        file = json.loads(tokenizer.to_str())
        file["model"]["vocab"] += [[name, -20.0] for name in BYTES]
        file["model"]["byte_fallback"] = True
        tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.decoder = spaces_back(True) if fallback else decoders.Metaspace()
    return added(tokenizer)


def few_unigrams():
    """Characters that only stand in longer tokens, or in none."""
    pieces = [("<unk>", 0.0), ("th", -5.0), ("h", -1.0), ("e", -2.0), ("▁the", -9.0), ("▁", -3.0), ("he", -2.5)]
    tokenizer = Tokenizer(models.Unigram(pieces, 0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return added(tokenizer)


def families():
    yield "llama3", begins(byte_level(split(LLAMA3), word="Ġwide", ignore_merges=True), "<|a|>")
    yield "qwen2", byte_level(split(QWEN2), normalizers.NFC())
    yield "smollm2", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    yield "byte_level", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    yield "llama2", llama2()
    yield "mistral", mistral()
    yield "gemma", gemma()
    yield "unknown_pairs", unknown_pairs()
    yield "unigram", unigram(False)
    yield "unigram_bytes", unigram(True)
    yield "few_unigrams", few_unigrams()


def crcs(lists):
    """Of ten lists each."""
    lines = [" ".join(map(str, numbers)) + "\n" for numbers in lists]
    return [zlib.crc32("".join(lines[i:i + 10]).encode()) for i in range(0, len(lines), 10)]


def encodings(tokenizer):
    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    result = {"recognised": [ids(text) for text in TEXTS], "random": crcs(ids(text) for text in RANDOM)}
    decoded = [tokenizer.decode(found, skip_special_tokens=False) for found in result["recognised"]]
    result["decoded"] = [None if text == back else back for text, back in zip(TEXTS, decoded)]
    result["framed"] = tokenizer.encode("the loom").ids
    tokenizer.encode_special_tokens = True
    result["as_text"] = [None if ids(text) == found else ids(text) for text, found in zip(TEXTS, result["recognised"])]
    return result


def old_merges(file):
    """Merges as lines, as files before 2024 have them."""
    file["model"]["merges"] = [" ".join(merge) for merge in file["model"]["merges"]]
    return file


def tokenizers():
    result = {}
    for name, tokenizer in families():
        file = json.loads(tokenizer.to_str())
        if name == "llama2":
            file = old_merges(file)
        result[name] = {"file": json.dumps(file, separators=(",", ":"), ensure_ascii=False), **encodings(tokenizer)}
    return result


def words(pattern):
    pieces = pre_tokenizers.Split(Regex(pattern), "isolated")
    def lengths(text):
        return [end - begin for _, (begin, end) in pieces.pre_tokenize_str(text)]

    return {"pattern": pattern, "lengths": [lengths(text) for text in TEXTS], "random": crcs(lengths(text) for text in RANDOM)}


def sentence_piece():
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.split("\n")), model_writer=file, model_type="bpe", vocab_size=390, character_coverage=0.98,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, user_defined_symbols=["<tool>"],
        minloglevel=2)
    model = sentencepiece_model_pb2.ModelProto.FromString(file.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    texts = [text for text in TEXTS if text and "<0x" not in text and "<unk>" not in text and "\x00" not in text and "▁" not in text]
    return {"pieces": [piece.piece for piece in model.pieces], "scores": [piece.score for piece in model.pieces],
            "types": [piece.type for piece in model.pieces], "encoded": [[text, processor.encode(text)] for text in texts]}


values = {"texts": TEXTS, "random": RANDOM, "tokenizers": tokenizers(), "sentencepiece": sentence_piece(),
          "words": {name: words(pattern) for name, pattern in
                    {"llama3": LLAMA3, "gpt4": GPT4, "qwen2": QWEN2, "gpt4o": GPT4O, "tekken": TEKKEN}.items()}}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(values, separators=(",", ":"), ensure_ascii=False))
