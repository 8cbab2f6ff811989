"""Makes lora_families_values.json: what PEFT's adapters on small models of transformers answer, in double precision.

Run with PyTorch, transformers and PEFT: python3 lora_families_values.py > lora_families_values.json
Eight configurations of llama_families_values.py, one for each form of adapters and choice of modules below. All values, the adapters' too, follow
from names (weight() there); the names of adapters are those in adapter_model.safetensors. The loss is the mean cross entropy of the next tokens.
Logits without adapters are in llama_families_values.json.
"""
import contextlib
import io
import json

import peft
import torch
import transformers

with contextlib.redirect_stdout(io.StringIO()):
    from llama_families_values import CASES, SIZES, TEXTS, weight

ATTENTION, ALL = ["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
FORMS = {
    "llama": {"r": 3, "lora_alpha": 5, "target_modules": ALL},
    "llama3": {"r": 2, "lora_alpha": 4, "use_dora": True, "target_modules": ["k_proj", "down_proj"]},
    "linear": {"r": 4, "lora_alpha": 3, "use_rslora": True, "target_modules": ATTENTION},
    "mistral": {"r": 1, "lora_alpha": 2, "target_modules": ["o_proj", "up_proj"]},
    "qwen2": {"r": 5, "lora_alpha": 8, "target_modules": ["q_proj", "k_proj", "v_proj"]},
    "qwen3": {"r": 2, "lora_alpha": 3, "target_modules": ["q_proj", "k_proj", "gate_proj"]},
    "gemma2": {"r": 3, "lora_alpha": 6, "use_rslora": True, "target_modules": ["v_proj", "down_proj"]},
    "gemma3": {"r": 2, "lora_alpha": 4, "target_modules": ATTENTION},
}


def flat(t):
    return [float(f"{v:.7g}") for v in t.detach().reshape(-1).tolist()]


def answer(name, family, options):
    config = getattr(transformers, family + ("TextConfig" if family == "Gemma3" else "Config"))(**{**SIZES, **options}, attn_implementation="eager")
    model = getattr(transformers, family + "ForCausalLM")(config).double().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(weight(key, p.shape))
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **FORMS[name])).double().eval()
    trained = {n.replace(".default", "").replace("magnitude_vector.weight", "magnitude_vector"): p for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for key, p in trained.items():
            p.copy_(weight(key, p.shape) + (1 if "magnitude" in key else 0))
    tokens = torch.tensor(TEXTS)
    logits = model(tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    return {"name": name, **FORMS[name], "logits": flat(logits[:, -1]), "loss": loss.item(), "gradients": {key: flat(p.grad) for key, p in trained.items()}}


print(json.dumps({"peft": peft.__version__, "cases": [answer(*case) for case in CASES if case[0] in FORMS]}, separators=(",", ":")))
