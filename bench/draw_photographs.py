"""Photographs of a kind, drawn: ten classes of things in scenes, the same bytes for the same seed and Pillow.

Each picture has a background with a gradient, clutter and texture, one thing of its class in a colour at random, seen
from a viewpoint at random (turned, sheared, mirrored, near or far, off the middle), partly hidden, lit from one side,
out of focus, with a sensor's noise, and is a JPEG of a quality and a size of its own. Colour, place and size say
nothing about the class: its outline does.
"""
import math
import multiprocessing
import os
import random

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SIDES = (72, 160)  # of the shorter side, in pixels
ASPECTS = (1, 4 / 3, 3 / 2, 16 / 9)


def ellipse(x, y, a, b, start=0.0, end=360.0, steps=28):
    turns = [math.radians(start + (end - start) * i / steps) for i in range(steps + 1)]
    return [(x + a * math.cos(t), y + b * math.sin(t)) for t in turns]


def box(left, top, right, bottom):
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def ring(x, y, a, b, width):
    """An arc as a band, open to the left."""
    outer, inner = ellipse(x, y, a, b, -100, 100), ellipse(x, y, a - width, b - width, -100, 100)
    return outer + inner[::-1]


# A thing: polygons in [-1, 1] x [-1, 1] (down is positive), each with a shade, the ones behind first.
def mug(r):
    w, h = r.uniform(0.4, 0.6), r.uniform(0.5, 0.75)
    return [(ring(w, 0, r.uniform(0.28, 0.4), h * 0.6, 0.12), 0.8), (box(-w, -h, w, h), 1.0),
            (ellipse(0, -h, w, 0.12), 0.6)]


def vase(r):
    w, neck = r.uniform(0.4, 0.6), r.uniform(0.15, 0.25)
    side = [(neck * 1.6, -0.9), (neck, -0.6), (w, 0.0), (w * 0.9, 0.4), (neck * 1.5, 0.9)]
    return [([(x, y) for x, y in side] + [(-x, y) for x, y in side[::-1]], 1.0), (ellipse(0, -0.9, neck * 1.6, 0.08), 0.6)]


def lamp(r):
    top, low = r.uniform(0.2, 0.35), r.uniform(0.5, 0.7)
    return [(box(-0.06, -0.2, 0.06, 0.8), 0.6), (ellipse(0, 0.85, 0.4, 0.12), 0.7),
            ([(-top, -0.9), (top, -0.9), (low, -0.1), (-low, -0.1)], 1.0)]


def mushroom(r):
    w, stem = r.uniform(0.55, 0.8), r.uniform(0.13, 0.22)
    return [([(-stem, -0.1), (stem, -0.1), (stem * 1.5, 0.9), (-stem * 1.5, 0.9)], 0.8),
            (ellipse(0, 0, w, r.uniform(0.6, 0.85), 180, 360), 1.0)]


def tree(r):
    crown = [(ellipse(r.uniform(-0.35, 0.35), r.uniform(-0.6, -0.1), r.uniform(0.3, 0.5), r.uniform(0.25, 0.45)), s)
             for s in (0.8, 0.9, 1.0, 1.1)]
    return [([(-0.1, -0.2), (0.1, -0.2), (0.16, 0.95), (-0.16, 0.95)], 0.5)] + crown


def umbrella(r):
    w = r.uniform(0.75, 0.95)
    points = ellipse(0, 0, w, r.uniform(0.65, 0.85), 180, 360)
    scallops = [p for i in range(3, -1, -1) for p in ellipse(-w + (2 * i + 1) * w / 4, 0, w / 4, 0.14, 0, -180, 8)]
    return [(box(-0.035, -0.2, 0.035, 0.85), 0.6), (ring(-0.1, 0.85, 0.13, 0.13, 0.06), 0.6), (points + scallops, 1.0)]


def house(r):
    w, eaves = r.uniform(0.6, 0.75), r.uniform(-0.25, 0.0)
    return [(box(-w, eaves, w, 0.85), 1.0), ([(-w - 0.15, eaves), (0, r.uniform(-0.9, -0.6)), (w + 0.15, eaves)], 0.6),
            (box(-0.1, 0.4, 0.15, 0.85), 0.4), (box(-w + 0.1, eaves + 0.15, -0.25, eaves + 0.45), 1.4)]


def tower(r):
    w, eaves = r.uniform(0.25, 0.38), r.uniform(-0.4, -0.2)
    return [(box(-w, eaves, w, 0.95), 1.0), ([(-w - 0.08, eaves), (0, -0.98), (w + 0.08, eaves)], 0.6),
            (ellipse(0, eaves + 0.3, 0.12, 0.16), 1.4), (box(-0.1, 0.6, 0.1, 0.95), 0.4)]


def car(r):
    roof, wheel = r.uniform(-0.45, -0.3), r.uniform(0.17, 0.23)
    return [(box(-0.95, 0.0, 0.95, 0.35), 1.0),
            ([(-0.6, 0.0), (-0.4, roof), (r.uniform(0.2, 0.4), roof), (0.65, 0.0)], 0.8),
            ([(-0.45, -0.02), (-0.33, roof + 0.08), (0.0, roof + 0.08), (0.0, -0.02)], 1.4),
            (ellipse(-0.55, 0.38, wheel, wheel), 0.3), (ellipse(0.55, 0.38, wheel, wheel), 0.3)]


def boat(r):
    mast = r.uniform(-0.1, 0.15)
    return [(box(mast - 0.03, -0.9, mast + 0.03, 0.4), 0.5),
            ([(-0.85, 0.35), (0.9, 0.35), (r.uniform(0.5, 0.7), 0.75), (-0.6, 0.75)], 0.8),
            ([(mast + 0.06, -0.85), (mast + r.uniform(0.5, 0.75), 0.25), (mast + 0.06, 0.25)], 1.2)]


THINGS = (boat, car, house, lamp, mug, mushroom, tower, tree, umbrella, vase)
CLASSES = [thing.__name__ for thing in THINGS]


def colour_of(r, low=30, high=225):
    return tuple(r.uniform(low, high) for _ in range(3))


def shaded(colour, by):
    return tuple(int(min(255, max(0, c * by))) for c in colour)


def view(r, width, height):
    """From a thing's coordinates to pixels."""
    scale = r.uniform(0.36, 0.54) * min(width, height)
    turn, shear, squash = math.radians(r.gauss(0, 9)), r.uniform(-0.2, 0.2), r.uniform(0.8, 1.25)
    mirror = r.choice((-1, 1))
    room_x, room_y = max(0, width / 2 - scale * 0.85), max(0, height / 2 - scale * 0.85)
    x0, y0 = width / 2 + r.uniform(-0.6, 0.6) * room_x, height / 2 + r.uniform(-0.6, 0.6) * room_y
    cos, sin = math.cos(turn), math.sin(turn)

    def to_pixel(point):
        x, y = mirror * point[0] * squash + shear * point[1], point[1] / squash
        return x0 + scale * (cos * x - sin * y), y0 + scale * (sin * x + cos * y)

    return to_pixel


def clutter(r, draw, width, height, count):
    for _ in range(count):
        x, y, a = r.uniform(0, width), r.uniform(0, height), r.uniform(0.05, 0.3) * width
        turn = r.uniform(0, 360)
        outline = ellipse(x, y, a, a * r.uniform(0.3, 1), turn, turn + r.choice((180, 360)), r.choice((3, 4, 20)))
        draw.polygon(outline, fill=shaded(colour_of(r), 1))


def scene(thing, r, width, height):
    """The picture before the camera, as an image twice as large."""
    low, high = np.array(colour_of(r)), np.array(colour_of(r))
    slope = np.linspace(0, 1, height)[:, None, None] * np.ones((1, width, 1))
    image = Image.fromarray((low + (high - low) * slope).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    clutter(r, draw, width, height, r.randint(0, 6))
    if r.random() < 0.5:
        image = image.filter(ImageFilter.BoxBlur(r.uniform(1, 6)))
        draw = ImageDraw.Draw(image)
    to_pixel, colour = view(r, width, height), colour_of(r, 20, 235)
    for outline, shade in thing(r):
        draw.polygon([to_pixel(p) for p in outline], fill=shaded(colour, shade * r.uniform(0.85, 1.15)))
    for _ in range(r.choice((0, 0, 0, 1))):  # in front of it
        x, y = to_pixel((r.uniform(-1, 1), r.uniform(-1, 1)))
        a = r.uniform(0.05, 0.12) * width
        draw.polygon(ellipse(x, y, a, a * r.uniform(0.5, 1.5), r.uniform(0, 360)), fill=shaded(colour_of(r), 1))
    return image


def photograph(label, seed):
    """An image and the quality of its JPEG file."""
    r = random.Random(seed)
    noise = np.random.default_rng(seed)
    short, aspect = r.randint(*SIDES), r.choice(ASPECTS)
    width, height = (short, int(short * aspect)) if r.random() < 0.4 else (int(short * aspect), short)
    image = scene(THINGS[label], r, 2 * width, 2 * height)
    if r.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(r.uniform(0.5, 2)))
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, dtype=np.float32)
    across, down = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
    light = r.uniform(0.55, 1.2) * (1 + r.uniform(-0.4, 0.4) * across + r.uniform(-0.4, 0.4) * down)
    pixels = pixels * light[:, :, None] * np.array([r.uniform(0.8, 1.15) for _ in range(3)])
    middle, contrast = pixels.mean(), r.uniform(0.6, 1.1)
    pixels = middle + contrast * (pixels - middle) + noise.normal(0, r.uniform(1, 10), pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)), r.randint(35, 92)


def draw_one(job):
    path, label, seed = job
    image, quality = photograph(label, seed)
    image.save(path, quality=quality)


def draw(folder, parts, seed=1):
    """parts: {"train": pictures of each class, ...}; makes folder/PART/CLASS/NUMBER.jpg."""
    jobs = []
    for number, (part, count) in enumerate(parts.items()):
        for label, name in enumerate(CLASSES):
            os.makedirs(os.path.join(folder, part, name), exist_ok=True)
            jobs += [(os.path.join(folder, part, name, f"{i:04}.jpg"), label, ((seed * 10 + number) * 10 + label) * 100000 + i)
                     for i in range(count)]
    with multiprocessing.Pool() as pool:
        pool.map(draw_one, jobs, chunksize=50)
