"""llama.cpp through its C interface, as PyPI's xllamacpp carries it: logits of whole windows, and its memory.

Parameters of models and contexts are passed as bytes, since their fields change with versions: only the first three of a context (positions, and
tokens of a batch twice), which have stood there since 2023, are set, and compared with what the context says. Needs numpy and xllamacpp.

  python3 bench/llama_native.py MODEL CONTEXT TOKENS        decodes TOKENS tokens; prints resident kilobytes before and after as JSON
"""
import ctypes
import glob
import json
import math
import os
import struct
import sys


class Parameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 1024)]  # more than either has; passed in memory, of which a callee reads what is its own


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
                ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


Log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
POINTER, INT = ctypes.c_void_p, ctypes.c_int32
FUNCTIONS = {
    "llama_backend_init": (None, []),
    "llama_log_set": (None, [Log, POINTER]),
    "llama_model_default_params": (Parameters, []),
    "llama_context_default_params": (Parameters, []),
    "llama_model_load_from_file": (POINTER, [ctypes.c_char_p, Parameters]),
    "llama_init_from_model": (POINTER, [POINTER, Parameters]),
    "llama_n_ctx": (ctypes.c_uint32, [POINTER]),
    "llama_n_batch": (ctypes.c_uint32, [POINTER]),
    "llama_set_n_threads": (None, [POINTER, INT, INT]),
    "llama_model_get_vocab": (POINTER, [POINTER]),
    "llama_vocab_n_tokens": (INT, [POINTER]),
    "llama_batch_init": (Batch, [INT, INT, INT]),
    "llama_decode": (INT, [POINTER, Batch]),
    "llama_get_logits": (ctypes.POINTER(ctypes.c_float), [POINTER]),
    "llama_get_memory": (POINTER, [POINTER]),
    "llama_memory_clear": (None, [POINTER, ctypes.c_bool]),
}


class Model:
    def __init__(self, path, context, threads):
        import xllamacpp
        self.api = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(xllamacpp.__file__), "*.so"))[0])
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.api, name)
            function.restype, function.argtypes = result, arguments
        self.quiet = Log(lambda *_: None)
        self.api.llama_log_set(self.quiet, None)
        self.api.llama_backend_init()
        self.model = self.api.llama_model_load_from_file(path.encode(), self.api.llama_model_default_params())
        parameters = self.api.llama_context_default_params()
        struct.pack_into("3I", parameters.bytes, 0, context, context, context)
        self.context = self.api.llama_init_from_model(self.model, parameters)
        if not self.context or (self.api.llama_n_ctx(self.context), self.api.llama_n_batch(self.context)) != (context, context):
            raise RuntimeError(f"llama.cpp made no context of {context} positions")
        self.api.llama_set_n_threads(self.context, threads, threads)
        self.vocabulary = self.api.llama_vocab_n_tokens(self.api.llama_model_get_vocab(self.model))
        self.batch = self.api.llama_batch_init(context, 0, 1)

    def clear(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def logits(self, tokens, first=0):
        """Of every one of the tokens, which stand at position `first` and on: (tokens, vocabulary) f32."""
        import numpy as np
        b = self.batch
        b.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, first + i, 1, 1
            b.seq_id[i][0] = 0
        if self.api.llama_decode(self.context, b) != 0:
            raise RuntimeError("llama_decode failed")
        return np.ctypeslib.as_array(self.api.llama_get_logits(self.context), (len(tokens), self.vocabulary))


def perplexity(path, tokens, window, threads):
    """Of tokens in windows, each given those before it in its window, and how many were scored; sums in double precision."""
    import numpy as np
    model, total, count = Model(path, window, threads), 0.0, 0
    for first in range(0, len(tokens), window):
        part = tokens[first:first + window]
        if len(part) < 2:
            break
        model.clear()
        logits = model.logits(part)[:-1].astype(np.float64)
        most = logits.max(axis=1)
        losses = most + np.log(np.exp(logits - most[:, None]).sum(axis=1)) - logits[np.arange(len(part) - 1), part[1:]]
        total, count = total + float(losses.sum()), count + len(losses)
    return math.exp(total / count), count


def resident():
    with open("/proc/self/status") as f:
        fields = dict(line.split(":", 1) for line in f)
    return {key: int(fields[key].split()[0]) for key in ("VmRSS", "RssAnon", "RssFile", "VmHWM")}


def main():
    path, context, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    import numpy  # noqa: F401: counted before, not as llama.cpp's
    import xllamacpp  # noqa: F401
    before = resident()
    model, token = Model(path, context, os.cpu_count()), 1
    for i in range(tokens):
        token = int(model.logits([token], i)[0].argmax())
    print(json.dumps({"before": before, "after": resident()}))


if __name__ == "__main__":
    main()
