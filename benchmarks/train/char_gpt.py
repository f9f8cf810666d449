"""PyTorch's side of the suite `train`: the model of examples/char_gpt with the same sizes, dropout, initial values and optimizer.

Usage: char_gpt.py eager|compile BATCH. Speaks the protocol of benchmarks/common/contestant.h.
"""
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, DROPOUT = 86, 128, 128, 4, 4, 0.1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + F.dropout(self.out(attended), DROPOUT, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), DROPOUT, self.training)


class CharGpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.1)
        nn.init.normal_(self.positions.weight, std=0.1)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = F.dropout(self.tokens(ids) + self.positions.weight[: ids.shape[1]], DROPOUT, self.training)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    mode, batch = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(int(os.environ.get("WEFT_NUM_THREADS", "2")))
    torch.manual_seed(1)
    start = time.perf_counter()
    model = CharGpt()
    # The fused implementation is the fastest that PyTorch has on the CPU.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    inputs, targets = torch.randint(VOCABULARY, (2, batch, CONTEXT))
    forward = torch.compile(model) if mode == "compile" else model

    def step():
        loss = F.cross_entropy(forward(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    for _ in range(3):
        step().item()
    print("ready", time.perf_counter() - start, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line.split()[1])):
            loss = step()
        loss.item()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
