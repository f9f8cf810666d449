"""PyTorch's side of the suite `decode`: the models and cases of cases.cpp by name, with a cache of a fixed capacity as there.

Usage: peers.py eager|compile. Speaks the protocol of benchmarks/common/contestant.h.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../common"))
from serve import serve

CAPACITY, SEEN, CHUNK, VOCABULARY = 512, 256, 32, 32000
SIZE, LAYERS, HEADS = 768, 12, 12
HEAD = SIZE // HEADS


def linear(inputs, outputs, bias):
    return nn.Linear(inputs, outputs, bias=bias)


def rotated(x, angles):
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()


class Block(nn.Module):
    """Of GPT-2, or with fewer heads of keys and rotary positions of Llama."""

    def __init__(self, llama, batch):
        super().__init__()
        self.llama, self.key_heads = llama, 4 if llama else HEADS
        norm = (lambda: nn.RMSNorm(SIZE)) if llama else (lambda: nn.LayerNorm(SIZE))
        self.norm1, self.norm2 = norm(), norm()
        self.qkv = linear(SIZE, (HEADS + 2 * self.key_heads) * HEAD, not llama)
        self.out = linear(SIZE, SIZE, not llama)
        hidden = 2048 if llama else 4 * SIZE
        self.up, self.down = linear(SIZE, 2 * hidden if llama else hidden, not llama), linear(hidden, SIZE, not llama)
        self.register_buffer("keys", torch.zeros(batch, self.key_heads, CAPACITY, HEAD))
        self.register_buffer("values", torch.zeros(batch, self.key_heads, CAPACITY, HEAD))

    def forward(self, x, positions, mask, angles):
        batch, length, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, -1, HEAD).transpose(1, 2)
        q, k, v = parts.split((HEADS, self.key_heads, self.key_heads), 1)
        if self.llama:
            q, k = rotated(q, angles), rotated(k, angles)
        self.keys.index_copy_(2, positions, k)
        self.values.index_copy_(2, positions, v)
        seen = F.scaled_dot_product_attention(q, self.keys, self.values, mask, enable_gqa=self.llama)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        y = self.up(self.norm2(x))
        if self.llama:
            gate, y = y.chunk(2, -1)
            return x + self.down(F.silu(gate) * y)
        return x + self.down(F.gelu(y, approximate="tanh"))


class Model(nn.Module):
    def __init__(self, llama, batch):
        super().__init__()
        self.llama = llama
        self.tokens = nn.Embedding(VOCABULARY if llama else 50257, SIZE)
        self.places = None if llama else nn.Embedding(1024, SIZE)
        self.blocks = nn.ModuleList(Block(llama, batch) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(SIZE) if llama else nn.LayerNorm(SIZE)
        self.head = linear(SIZE, VOCABULARY, False) if llama else None
        self.register_buffer("frequency", 10000 ** (-torch.arange(0, HEAD, 2) / HEAD))

    def forward(self, ids, positions, wants_logits):
        x = self.tokens(ids)
        mask, angles = torch.arange(CAPACITY) <= positions[:, None], None
        if self.llama:
            angles = (positions[:, None] * self.frequency).repeat(1, 2)
        else:
            x = x + self.places(positions)
        for block in self.blocks:
            x = block(x, positions, mask, angles)
        if not wants_logits:
            return x
        return F.linear(self.norm(x[:, -1]), self.tokens.weight if self.head is None else self.head.weight)


def make_case(name):
    kind, what, batch = name.split("_")
    torch.manual_seed(1)
    model = Model(kind == "llama", int(batch)).eval()
    forward = torch.compile(model) if sys.argv[1] == "compile" else model
    length = CHUNK if what == "prompt" else 1
    ids, positions = torch.randint(VOCABULARY, (int(batch), length)), torch.arange(SEEN, SEEN + length)

    def work():
        with torch.no_grad():
            forward(ids, positions, what == "step")
    return work


if __name__ == "__main__":
    serve(make_case, int(os.environ.get("WEFT_NUM_THREADS", "2")))
