#!/usr/bin/env python3
"""`heddle train image-classifier` beside a PyTorch script of the same recipe, on photographs drawn here.

  bench/get_peers.sh torch
  $HEDDLE_PEERS/venv/bin/python bench/photographs.py --heddle build/release/bin/heddle --device opencl:0
  $HEDDLE_PEERS/venv/bin/python bench/photographs.py --size 64 --epochs 8 --seeds 1,2

Ten folders of 500 pictures (bench/draw_photographs.py), 400 of each class to train on and 100 for validation, and 200
more of each for the test, which neither side sees before its last figure. Heddle runs with its defaults but for the
options given here; PyTorch (torchvision's ResNet, transforms and file reading) with the same model, batch, optimizer,
schedule, augmentation, clipping, label smoothing and choice of the best epoch; both stop early by the same rule. Prints
for each seed both test accuracies, their difference in points and the seconds of each; at the end the means. With
--only one side runs, whose line another call can be compared with. Exit code: 0; 1 where Heddle's mean is more than one
point lower; 2 with one line when something is missing.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time


def fail(text):
    print(f"photographs: {text}", file=sys.stderr)
    sys.exit(2)


try:
    import numpy as np
    import torch
    import torchvision
    from PIL import Image
    from torchvision.transforms import v2
except ImportError as error:
    fail(f"{error.name} is not here (bench/get_peers.sh torch, and its venv's python): skipped")

import draw_photographs

# Defaults of `heddle train image-classifier`, which tests/train/own_data_test.cpp holds.
BATCH, RATE, DECAY, SMOOTHING, CLIP, PATIENCE = 32, 1e-3, 0.05, 0.1, 1.0, 8
LEAST_AREA, COLOUR, EVALUATED = 0.35, 0.3, 0.875


class InMemory(torch.utils.data.Dataset):
    """A folder of classes, decoded once."""

    def __init__(self, folder, transform):
        files = torchvision.datasets.ImageFolder(folder)
        self.images = [np.asarray(files.loader(path)) for path, _ in files.samples]
        self.labels = files.targets
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


def middle(size):
    def cut(image):
        side = max(1, round(EVALUATED * min(image.size)))
        left, top = (image.width - side) // 2, (image.height - side) // 2
        return image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BILINEAR)

    return cut


def statistics_of(images):
    """Mean and deviation of each channel; every image counts the same."""
    means = np.mean([image.reshape(-1, 3).mean(0) / 255 for image in images], 0)
    squares = np.mean([(image.reshape(-1, 3) / 255.0).__pow__(2).mean(0) for image in images], 0)
    return means.tolist(), np.sqrt(squares - means**2).tolist()


class PyTorch:
    def __init__(self, options, seed):
        self.options = options
        torch.manual_seed(seed)
        self.train = InMemory(os.path.join(options.folder, "train"), None)
        mean, deviation = statistics_of(self.train.images)
        finish = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
        normal = [v2.Normalize(mean, deviation)]
        size = options.size
        self.train.transform = v2.Compose(
            [v2.RandomResizedCrop(size, scale=(LEAST_AREA, 1), ratio=(3 / 4, 4 / 3)), v2.RandomHorizontalFlip(), *finish,
             v2.ColorJitter(COLOUR, COLOUR, COLOUR), *normal])
        plain = v2.Compose([middle(size), *finish, *normal])
        self.validation, self.test = (InMemory(os.path.join(options.folder, part), plain) for part in ("val", "test"))
        self.model = getattr(torchvision.models, options.model)(num_classes=len(draw_photographs.CLASSES))

    def evaluate(self, images):
        self.model.eval()
        loss, right = 0.0, 0
        with torch.no_grad():
            for x, y in torch.utils.data.DataLoader(images, 250):
                logits = self.model(x)
                loss += torch.nn.functional.cross_entropy(logits, y, reduction="sum").item()
                right += (logits.argmax(1) == y).sum().item()
        self.model.train()
        return loss / len(images), right / len(images)

    def optimizer(self):
        parameters = list(self.model.parameters())
        groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": DECAY},
                  {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=RATE, fused=True)

    def fit(self):
        epochs = self.options.epochs
        loader = torch.utils.data.DataLoader(self.train, BATCH, shuffle=True, drop_last=True)
        optimizer = self.optimizer()
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
        best, since, kept = math.inf, 0, None
        for epoch in range(epochs):
            for x, y in loader:
                loss = torch.nn.functional.cross_entropy(self.model(x), y, label_smoothing=SMOOTHING)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
                optimizer.step()
                schedule.step()
            value, accuracy = self.evaluate(self.validation)
            print(f"  PyTorch epoch {epoch + 1}: validation loss {value:.4f}, accuracy {accuracy:.4f}", file=sys.stderr, flush=True)
            since += 1
            if value < best:
                best, since = value, 0
                kept = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            if since >= PATIENCE:
                break
        self.model.load_state_dict(kept)


def pytorch(options, seed):
    begin = time.monotonic()
    run = PyTorch(options, seed)
    run.fit()
    seconds = time.monotonic() - begin
    return run.evaluate(run.test)[1], seconds


def heddle(options, seed):
    out = os.path.join(options.out, f"{options.model}-{options.size}-{options.epochs}-{seed}")
    command = [options.heddle, "train", "image-classifier", "--data", options.folder, "--model", options.model,
               "--image-size", str(options.size), "--epochs", str(options.epochs), "--seed", str(seed), "--out", out, "--json"]
    command += ["--device", options.device] if options.device else []
    begin = time.monotonic()
    done = subprocess.run(command + options.more, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])["test_accuracy"], time.monotonic() - begin


def compare(options):
    sides = {"Heddle": heddle, "PyTorch": pytorch}
    accuracies = {name: [] for name in sides}
    for count, seed in enumerate(options.seeds):
        figures = {}
        for name in list(sides)[:: 1 if count % 2 == 0 else -1]:  # in turns, each first once
            if options.only in (None, name.lower()):
                figures[name] = sides[name](options, seed)
                accuracies[name].append(100 * figures[name][0])
        text = ", ".join(f"{name} {100 * f[0]:.2f} % in {f[1]:.0f} s" for name, f in sorted(figures.items()))
        apart = f", {100 * (figures['Heddle'][0] - figures['PyTorch'][0]):+.2f} points" if len(figures) == 2 else ""
        print(f"seed {seed}: {text}{apart}", flush=True)
    means = {name: statistics.mean(values) for name, values in accuracies.items() if values}
    print("mean: " + ", ".join(f"{name} {value:.2f} %" for name, value in means.items()))
    if len(means) < 2:
        return 0
    difference = means["Heddle"] - means["PyTorch"]
    print(f"Heddle - PyTorch: {difference:+.2f} points")
    return 0 if difference >= -1 else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="build/release/bin/heddle")
    parser.add_argument("--device", default="")
    parser.add_argument("--model", default="resnet18", help="resnet18, resnet34 or resnet50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[1])
    parser.add_argument("--folder", help="where the pictures are, or are drawn to")
    parser.add_argument("--out", help="for Heddle's runs; without it they are not kept")
    parser.add_argument("--each", type=int, default=500, help="pictures of a class; a fifth of them for validation")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=("heddle", "pytorch"))
    parser.add_argument("more", nargs="*", help="further options of heddle train, behind --")
    return parser.parse_args()


def main():
    options = arguments()
    if not hasattr(torchvision.models, options.model):
        fail(f"torchvision has no model '{options.model}'")
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        options.folder = options.folder or os.path.join(scratch, "photographs")
        options.out = options.out or os.path.join(scratch, "runs")
        if not os.path.isdir(options.folder):
            held = options.each // 5
            draw_photographs.draw(options.folder, {"train": options.each - held, "val": held, "test": 2 * held})
        return compare(options)


if __name__ == "__main__":
    sys.exit(main())
