"""Small networks in PyTorch with the parameters' names of nn/models, and their weights and batches by a formula that checks/formula.h has too."""
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from philox import philox_uniform

WEIGHT_SEED, DATA_SEED = 1, 2


def noise(seed, stream, part, shape):
    """In [0, 1), of Heddle's Philox stream."""
    return torch.from_numpy(philox_uniform([seed, 0, stream, part], int(np.prod(shape))).reshape(shape))


def set_by_formula(tensors):
    """By number in the order of names: matrices uniform in +-1/sqrt(fan in), running variances in [0.5, 1.5), weights
    of norms in [0.9, 1.1), others in +-0.1."""
    with torch.no_grad():
        for number, name in enumerate(sorted(tensors)):
            value, shape = tensors[name], tuple(tensors[name].shape)
            u = noise(WEIGHT_SEED, number, 0, shape) * 2 - 1
            if len(shape) > 1:
                value.copy_(u * np.float32(1 / math.sqrt(value.numel() / shape[0])))
            elif name.endswith("running_var"):
                value.copy_(u * 0.5 + 1)
            else:
                value.copy_(u * np.float32(0.1) + (1 if name.endswith("weight") else 0))


def images(step, batch, shape, classes):
    """Noise in [0, 0.5), and 0.5 more where the flat index modulo the number of classes is the label."""
    labels = (noise(DATA_SEED, step, 1, (batch,)) * classes).long()
    x = noise(DATA_SEED, step, 0, (batch, math.prod(shape))) * np.float32(0.5)
    x += np.float32(0.5) * (torch.arange(x.shape[1])[None] % classes == labels[:, None])
    return x.reshape(batch, *shape), labels


def text(step, batch, length, vocabulary):
    """Tokens whose next one is theirs plus 0 or 1."""
    steps = (noise(DATA_SEED, step, 0, (batch, length + 1)) * 2).long()
    steps[:, 0] = (noise(DATA_SEED, step, 1, (batch,)) * vocabulary).long()
    tokens = steps.cumsum(1) % vocabulary
    return tokens[:, :-1], tokens[:, 1:].reshape(-1)


def mlp():
    return nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10))


def conv(into, out, kernel, stride=1):
    return nn.Conv2d(into, out, kernel, stride, kernel // 2, bias=False)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        stage = lambda a, b: nn.Sequential(conv(a, b, 3), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
        self.features = nn.Sequential(stage(1, 4), stage(4, 8))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(8 * 3 * 3, 16), nn.ReLU(), nn.Dropout(0), nn.Linear(16, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


class ResNetBlock(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.conv1, self.bn1, self.conv2, self.bn2 = conv(into, out, 3, stride), nn.BatchNorm2d(out), conv(out, out, 3), nn.BatchNorm2d(out)
        self.downsample = nn.Sequential(conv(into, out, 1, stride), nn.BatchNorm2d(out)) if stride != 1 or into != out else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """With the stem for small images, and narrow."""

    def __init__(self, width=4, classes=10):
        super().__init__()
        self.conv1, self.bn1 = conv(3, width, 3), nn.BatchNorm2d(width)
        stage = lambda into, out, stride: nn.Sequential(ResNetBlock(into, out, stride), ResNetBlock(out, out, 1))
        self.layer1, self.layer2 = stage(width, width, 1), stage(width, 2 * width, 2)
        self.layer3, self.layer4 = stage(2 * width, 4 * width, 2), stage(4 * width, 8 * width, 2)
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class LstmLm(nn.Module):
    def __init__(self, vocabulary=13, width=8, hidden=12, layers=2):
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(vocabulary, width), nn.LSTM(width, hidden, layers, batch_first=True), nn.Linear(hidden, vocabulary)

    def forward(self, tokens):
        return self.decoder(self.rnn(self.encoder(tokens))[0]).flatten(0, 1)


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (p.reshape(batch, length, self.heads, -1).transpose(1, 2) for p in self.attn["c_attn"](self.ln_1(x)).split(width, 2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp["c_proj"](functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary=13, context=16, layers=2, heads=2, width=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return (self.ln_f(x) @ self.wte.weight.T).flatten(0, 1)
