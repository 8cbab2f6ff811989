"""Makes lora_values.json: what PEFT's adapters on a small Llama of transformers answer, in double precision, to the calls of lora_test.cpp.

Run with PyTorch, transformers and PEFT: python3 lora_values.py > lora_values.json
"""
import json
import math
import os
import tempfile

import peft
import torch
import transformers
from safetensors.torch import load_file

SIZES = {"vocab_size": 19, "max_position_embeddings": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 24,
         "intermediate_size": 20, "rms_norm_eps": 1e-4, "rope_theta": 50.0, "tie_word_embeddings": False, "attention_bias": False}
TOKENS = [[3, 14, 7, 7, 0, 18, 5], [1, 4, 9, 16, 6, 17, 13]]
CASES = [
    {"name": "lora", "r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "v_proj"]},
    {"name": "rslora", "r": 4, "lora_alpha": 3, "use_rslora": True,
     "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]},
    {"name": "dora", "r": 2, "lora_alpha": 4, "use_dora": True, "target_modules": ["o_proj", "down_proj"]},
]


def fill(named, size):
    """Waves that lora_test.cpp makes too, by the place of a name among the sorted ones."""
    for place, (name, tensor) in enumerate(sorted(named)):
        n = tensor.numel()
        wave = torch.tensor([size * math.sin((0.37 + 0.11 * place) * (i + 1)) for i in range(n)], dtype=torch.float64)
        norm = "norm" in name or "magnitude" in name
        with torch.no_grad():
            tensor.copy_((1 + wave if norm else wave).reshape(tensor.shape))


def flat(t):
    return [float(f"{v:.8g}") for v in t.detach().reshape(-1).tolist()]


def run(case):
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, attn_implementation="eager")).double()
    fill(model.state_dict().items(), 0.3)
    options = {k: v for k, v in case.items() if k != "name"}
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **options)).double().eval()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    fill([(n.replace(".default", ""), p) for n, p in trained.items()], 0.4)
    tokens = torch.tensor(TOKENS)
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
    loss.backward()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = {n: list(t.shape) for n, t in load_file(os.path.join(folder, "adapter_model.safetensors")).items()}
        with open(os.path.join(folder, "adapter_config.json")) as f:
            config = json.load(f)
    gradients = {n.replace(".default", ""): flat(p.grad) for n, p in trained.items()}
    merged = model.merge_and_unload().state_dict()
    first = case["target_modules"][0]
    weight = f"model.layers.1.self_attn.{first}.weight"
    return {**case, "logits": flat(logits), "loss": float(loss.detach()), "gradients": gradients, "saved": saved, "config": config,
            "merged": {"name": weight, "values": flat(merged[weight])}}


print(json.dumps({"peft": peft.__version__, "tokens": TOKENS, "cases": [run(c) for c in CASES]}, indent=None, separators=(",", ":")))
