"""Heddle's random numbers (core/graph/philox.h) in numpy: element n of a key is the same float on both sides."""
import numpy as np


def philox_uniform(key, count):
    """key: four 32-bit words {k0, k1, c0, c1}; float32 in [0, 1), elements 0 .. count - 1."""
    mask = np.uint64(0xFFFFFFFF)
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    c = [blocks & mask, blocks >> np.uint64(32), np.full_like(blocks, key[2]), np.full_like(blocks, key[3])]
    k0, k1 = int(key[0]), int(key[1])
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c[0]
        p1 = np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    words = np.stack(c, axis=1).reshape(-1)[:count]
    return ((words >> np.uint64(8)).astype(np.float64) * 2.0**-24).astype(np.float32)


class Generator:
    """nn::init draws: one key per call."""

    def __init__(self, seed):
        self.seed, self.offset = seed, 0

    def uniform(self, shape, low, high):
        key = [self.seed & 0xFFFFFFFF, self.seed >> 32, self.offset & 0xFFFFFFFF, self.offset >> 32]
        self.offset += 1
        u = philox_uniform(key, int(np.prod(shape))).astype(np.float64)
        return (low + (high - low) * u).astype(np.float32).reshape(shape)
