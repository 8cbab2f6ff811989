"""Makes transformer_values.json: what PyTorch's attention and transformer layers answer, in double precision, to the calls of transformer_test.cpp.

Run with any PyTorch: python3 transformer_values.py > transformer_values.json
"""
import json
import math

import torch

N, T, S, E, HEADS, FF = 2, 3, 5, 6, 2, 7
hide = {"shape": [T, S], "bool": True, "values": [0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0]}
add = {"shape": [T, S], "bool": False, "values": [round(0.5 * math.sin(2.1 * i), 3) for i in range(T * S)]}
each = {"shape": [N * HEADS, T, S], "bool": False, "values": [round(math.cos(0.8 * i), 3) for i in range(N * HEADS * T * S)]}
pad = {"shape": [N, S], "bool": True, "values": [0, 0, 1, 0, 1, 0, 0, 0, 0, 1]}
pad_add = {"shape": [N, S], "bool": False, "values": [0.5, 0, -1, 0, -2, 0, 0.25, 0, 0, -3]}
self_pad = {"shape": [N, T], "bool": True, "values": [0, 0, 1, 0, 1, 0]}
self_add = {"shape": [T, T], "bool": False, "values": [0.5, -1, 0, 0.25, 0, -0.5, 1, 0, -2]}

CASES = [
    {"kind": "MultiheadAttention", "inputs": [[N, T, E]]},
    {"kind": "MultiheadAttention", "inputs": [[N, T, E]], "bias": False, "masks": {"is_causal": True}},
    {"kind": "MultiheadAttention", "inputs": [[N, T, E], [N, S, E], [N, S, E]], "masks": {"attn_mask": hide}},
    {"kind": "MultiheadAttention", "inputs": [[N, T, E], [N, S, E], [N, S, E]], "masks": {"attn_mask": each, "key_padding_mask": pad}},
    {"kind": "MultiheadAttention", "inputs": [[N, T, E], [N, S, 4], [N, S, 5]], "kdim": 4, "vdim": 5, "masks": {"attn_mask": add, "key_padding_mask": pad_add}},
    {"kind": "MultiheadAttention", "inputs": [[N, T, E], [N, S, 4], [N, S, E]], "kdim": 4, "bias": False},
    {"kind": "TransformerEncoderLayer", "inputs": [[N, T, E]]},
    {"kind": "TransformerEncoderLayer", "inputs": [[N, T, E]], "activation": "gelu", "norm_first": True,
    "layer_norm_eps": 1e-2, "masks": {"attn_mask": self_add, "key_padding_mask": self_pad}},
    {"kind": "TransformerEncoderLayer", "inputs": [[N, T, E]], "bias": False, "masks": {"is_causal": True, "key_padding_mask": self_pad}},
    {"kind": "TransformerDecoderLayer", "inputs": [[N, T, E], [N, S, E]], "masks": {"is_causal": True}, "memory_masks": {"key_padding_mask": pad}},
    {"kind": "TransformerDecoderLayer", "inputs": [[N, T, E], [N, S, E]], "activation": "gelu", "norm_first": True,
    "bias": False, "masks": {"key_padding_mask": self_pad}, "memory_masks": {"attn_mask": hide}},
    {"kind": "TransformerEncoder", "inputs": [[N, T, E]], "norm_first": True, "masks": {"is_causal": True}},
    {"kind": "TransformerDecoder", "inputs": [[N, T, E], [N, S, E]], "masks": {"is_causal": True}, "memory_masks": {"attn_mask": add}},
]


def wave(shape, frequency):
    n = math.prod(shape)
    return torch.tensor([0.6 * math.sin(frequency * (i + 1)) for i in range(n)], dtype=torch.float64).reshape(shape)


def flat(t):
    return [float(f"{v:.7g}") for v in t.detach().reshape(-1).tolist()]


def mask_of(masks, name):
    if name == "attn_mask" and masks.get("is_causal"):
        return torch.ones(T, T, dtype=torch.bool).triu(1)
    if name not in masks:
        return None
    mask = masks[name]
    return torch.tensor(mask["values"], dtype=torch.bool if mask["bool"] else torch.float64).reshape(mask["shape"])


def make(case):
    kind, bias = case["kind"], case.get("bias", True)
    if kind == "MultiheadAttention":
        return torch.nn.MultiheadAttention(E, HEADS, bias=bias, kdim=case.get("kdim"), vdim=case.get("vdim"), batch_first=True)
    options = {k: case[k] for k in ("activation", "norm_first", "layer_norm_eps") if k in case}
    layer_kind = kind if kind.endswith("Layer") else kind + "Layer"
    layer = getattr(torch.nn, layer_kind)(E, HEADS, FF, dropout=0, bias=bias, batch_first=True, **options)
    return layer if kind.endswith("Layer") else getattr(torch.nn, kind)(layer, 2, norm=torch.nn.LayerNorm(E))


def call(layer, kind, x, masks, memory_masks):
    attn, padding = mask_of(masks, "attn_mask"), mask_of(masks, "key_padding_mask")
    if kind == "MultiheadAttention":
        q, k, v = x * 3 if len(x) == 1 else x
        return layer(q, k, v, key_padding_mask=padding, attn_mask=attn)
    if kind == "TransformerEncoderLayer":
        return layer(x[0], src_mask=attn, src_key_padding_mask=padding), None
    if kind == "TransformerEncoder":
        return layer(x[0], mask=attn, src_key_padding_mask=padding), None
    memory = {"memory_mask": mask_of(memory_masks, "attn_mask"), "memory_key_padding_mask": mask_of(memory_masks, "key_padding_mask")}
    return layer(x[0], x[1], tgt_mask=attn, tgt_key_padding_mask=padding, **memory), None


def answer(case):
    layer = make(case).double()
    with torch.no_grad():
        for k, (_, p) in enumerate(layer.named_parameters()):
            p.copy_(wave(p.shape, 0.7 + 0.3 * k))
    x = [wave(shape, 0.9 + 0.4 * k).requires_grad_() for k, shape in enumerate(case["inputs"])]
    y, weights = call(layer, case["kind"], x, case.get("masks", {}), case.get("memory_masks", {}))
    loss = (y * wave(y.shape, 0.5)).sum()
    if weights is not None:
        loss = loss + (weights * wave(weights.shape, 1.1)).sum()
    loss.backward()
    return {**case, "output": flat(y), "weights": None if weights is None else flat(weights),
            "input_gradients": [flat(v.grad) for v in x],
            "names": [name for name, _ in layer.named_parameters()],
            "gradients": {name: flat(p.grad) for name, p in layer.named_parameters()}}


print(json.dumps([answer(case) for case in CASES]))
