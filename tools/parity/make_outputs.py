#!/usr/bin/env python3
"""Writes tests/parity/outputs.json: parameter counts, multiply-adds and outputs of torchvision's and Hugging Face's
models, with weights by the formula of models.py.

    python3 tools/parity/make_outputs.py        (needs numpy, torch, torchvision and transformers)
"""
import json
import os

import torch
import torchvision
import transformers
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import resnet

import models

GPT2 = {"vocab_size": 29, "n_positions": 12, "n_layer": 2, "n_head": 2, "n_embd": 16}
# By name, on a blank device: the network and the shape of what it takes.
COUNTED = {
    "resnet18": (torchvision.models.resnet18, (1, 3, 224, 224)),
    "resnet34": (torchvision.models.resnet34, (1, 3, 224, 224)),
    "resnet50": (torchvision.models.resnet50, (1, 3, 224, 224)),
    "mobilenetv2": (torchvision.models.mobilenet_v2, (1, 3, 224, 224)),
    "vit-b16": (torchvision.models.vit_b_16, (1, 3, 224, 224)),
    "gpt2": (lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config()), (1, 1024)),
    "gpt2-medium": (lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=24, n_head=16, n_embd=1024)), (1, 1024)),
    "gpt2-large": (lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=36, n_head=20, n_embd=1280)), (1, 1024)),
    "gpt2-xl": (lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=48, n_head=25, n_embd=1600)), (1, 1024)),
}


def counts(make, shape):
    with torch.device("meta"):
        model = make().eval()
        x = torch.empty(shape) if len(shape) == 4 else torch.zeros(shape, dtype=torch.long)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(x)
    return {"parameters": sum(p.numel() for p in model.parameters()), "flops": counter.get_total_flops()}


def image_output(model, size, classes=10):
    state = {name: value for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    models.set_by_formula(state)
    x, _ = models.images(0, 1, (3, size, size), classes)
    with torch.no_grad():
        return model.eval()(x).flatten().tolist()


def gpt2_output():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)).eval()
    models.set_by_formula(dict(model.transformer.named_parameters()))
    tokens, _ = models.text(0, 2, 9, GPT2["vocab_size"])
    with torch.no_grad():
        return model(tokens).logits.flatten().tolist()


def main():
    torch.set_num_threads(1)
    small_vit = torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, num_classes=10)
    out = {"made_by": f"tools/parity/make_outputs.py, torch {torch.__version__}, torchvision {torchvision.__version__}, "
           f"transformers {transformers.__version__}"}
    out["counts"] = {name: counts(*case) for name, case in COUNTED.items()}
    # Of few blocks, since the reference device takes its time.
    out["resnet"] = image_output(resnet.ResNet(resnet.BasicBlock, [1, 2, 1, 1], num_classes=10), 17)
    out["bottleneck"] = image_output(resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=10), 17)
    out["mobilenetv2"] = image_output(torchvision.models.mobilenet_v2(num_classes=10, width_mult=0.25), 33)
    out["vit"] = image_output(small_vit, 32)
    out["gpt2"] = gpt2_output()
    path = os.path.join(os.path.dirname(__file__), "../../tests/parity/outputs.json")
    with open(path, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
