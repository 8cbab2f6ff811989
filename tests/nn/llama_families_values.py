"""Makes llama_families_values.json: logits and gradients of transformers' models, in double precision, of small configurations of each family.

Run with PyTorch and transformers (5.24 was used): python3 llama_families_values.py > llama_families_values.json
Weights follow from their names (weight()), so that none is stored; llama_families_test.cpp makes the same. Configurations are as transformers saves
them. Windows are shorter than the texts, stretched rotary positions have waves of all three kinds, caps bend scores and logits.
"""
import json
import math

import numpy
import torch
import transformers

TEXTS = [[3, 14, 7, 7, 0, 28, 5, 11, 2, 19, 8, 23, 1], [1, 4, 9, 16, 25, 6, 17, 13, 12, 22, 27, 10, 20]]
SIZES = {"vocab_size": 29, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-4, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
PLAIN = {"rope_type": "default", "rope_theta": 50.0}

CASES = [
    ("llama", "Llama", {"rope_parameters": PLAIN}),
    ("llama3", "Llama", {"tie_word_embeddings": True, "head_dim": 10, "num_key_value_heads": 1, "eos_token_id": [2, 5], "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 40}}),
    ("linear", "Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0}}),
    ("mistral", "Mistral", {"sliding_window": 5, "head_dim": 8, "rope_parameters": PLAIN}),
    ("qwen2", "Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1, "rope_parameters": PLAIN}),
    ("qwen3", "Qwen3", {"head_dim": 10, "tie_word_embeddings": True, "rope_parameters": PLAIN}),
    ("phi3", "Phi3", {"hidden_size": 32, "sliding_window": 6, "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}}),
    ("gemma2", "Gemma2", {"head_dim": 10, "num_hidden_layers": 3, "sliding_window": 4, "query_pre_attn_scalar": 12, "attn_logit_softcapping": 2.0,
                          "final_logit_softcapping": 9.0, "rope_parameters": PLAIN}),
    ("gemma3", "Gemma3", {"head_dim": 10, "num_hidden_layers": 3, "sliding_window": 5, "query_pre_attn_scalar": 6,
                          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                          "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 2.0},
                                              "sliding_attention": {"rope_type": "default", "rope_theta": 40.0}}}),
]
# Families whose gradients are stored, of the parameters whose names end so.
GRADIENTS = {"gemma3": ("norm.weight", "layers.0.self_attn.k_proj.weight"), "gemma2": ("1.self_attn.q_proj.weight", "0.post_attention_layernorm.weight"),
             "qwen2": ("_proj.bias", "0.mlp.gate_proj.weight"), "phi3": ("0.self_attn.qkv_proj.weight",)}


def weight(name, shape):
    """Element i from the hash of the name and i, in [-0.35, 0.35) for matrices, [-0.5, 0.5) for biases, [0.5, 1.5) for norms."""
    with numpy.errstate(over="ignore"):
        seed = numpy.uint32(2166136261)
        for byte in name.encode():
            seed = (seed ^ numpy.uint32(byte)) * numpy.uint32(16777619)
        h = numpy.arange(math.prod(shape), dtype=numpy.uint32) + seed
        for shift, factor in ((16, 2246822507), (13, 3266489909), (16, 1)):
            h = (h ^ (h >> numpy.uint32(shift))) * numpy.uint32(factor)
    u = (h >> numpy.uint32(8)).astype(numpy.float64) / 2**24
    values = (u - 0.5) * 0.7 if len(shape) == 2 else u - 0.5 if name.endswith(".bias") else u + 0.5
    return torch.from_numpy(values.astype(numpy.float32).astype(numpy.float64)).reshape(shape)


def flat(t):
    return [float(f"{v:.7g}") for v in t.detach().reshape(-1).tolist()]


def answer(name, family, options):
    suffix = "TextConfig" if family == "Gemma3" else "Config"
    config = getattr(transformers, family + suffix)(**{**SIZES, **options}, attn_implementation="eager")
    model = getattr(transformers, family + "ForCausalLM")(config).double().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(weight(key, p.shape))
    logits = model(torch.tensor(TEXTS), use_cache=False).logits
    loss = (logits * torch.sin(0.5 * torch.arange(1, logits.numel() + 1, dtype=torch.float64)).reshape(logits.shape)).mean()
    loss.backward()
    return {"name": name, "config": json.loads(config.to_json_string()), "shapes": {key: list(p.shape) for key, p in model.named_parameters()},
            "logits": flat(logits), "loss": loss.item(),
            "gradients": {key: flat(p.grad) for key, p in model.named_parameters() if key.endswith(GRADIENTS.get(name, ("none",)))}}


print(json.dumps({"texts": TEXTS, "cases": [answer(*case) for case in CASES]}))
