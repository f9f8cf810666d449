"""Values by a formula of their index, which tests/models/formula.h computes as well, so that no
weights are stored: FNV-1a of a name and MurmurHash3's finish of each index, in 32 bits."""
import numpy as np
import torch


SALT = ""  # of inputs' names: other inputs


def salted(name):
    return name + SALT if name.startswith("input") else name


def fnv(text, bits):
    offset, prime = {32: (0x811C9DC5, 0x01000193), 64: (0xCBF29CE484222325, 0x100000001B3)}[bits]
    value = offset
    for byte in text.encode():
        value = (value ^ byte) * prime % (1 << bits)
    return value


def hashes(name, count):
    x = (np.arange(count, dtype=np.uint64) * 0x9E3779B1 + fnv(name, 32)) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x ^= x >> np.uint64(shift)
        x = (x * factor) & 0xFFFFFFFF
    return x ^ (x >> np.uint64(16))


def unit(name, shape):
    """In [-1, 1), rounded to float32."""
    count = int(np.prod(shape, dtype=np.int64))
    values = hashes(salted(name), count).astype(np.float64) / 2**31 - 1
    return torch.from_numpy(values.astype(np.float32).astype(np.float64)).reshape(shape)


def indices(name, shape, count):
    total = int(np.prod(shape, dtype=np.int64))
    return torch.from_numpy((hashes(salted(name), total) % count).astype(np.int64)).reshape(shape)


def weight(name, shape):
    """Of matrices and kernels so large that relu keeps the variance; around 1 what scales."""
    shape = tuple(shape)
    if len(shape) >= 2:
        fan_in = int(np.prod(shape[1:], dtype=np.int64))
        low, high = 0.0, float(np.sqrt(6.0 / fan_in))
    elif name.endswith("weight") or name.endswith("running_var"):
        low, high = 1.0, 0.2
    else:
        low, high = 0.0, 0.2
    count = int(np.prod(shape, dtype=np.int64))
    values = low + high * (hashes(name, count).astype(np.float64) / 2**31 - 1)
    return torch.from_numpy(values.astype(np.float32).astype(np.float64)).reshape(shape)
