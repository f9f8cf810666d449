"""PyTorch's side of the suite `ranks`: char_gpt.py's step, replicated by DistributedDataParallel over Gloo.

Usage: ranks.py BATCH STEPS, alone or started by tools/launch.sh.
"""
import os
import sys
import time

import torch
import torch.distributed
import torch.nn.functional as F

from char_gpt import CONTEXT, VOCABULARY, CharGpt

WARMUP = 5


def main():
    batch, steps = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(int(os.environ.get("WEFT_NUM_THREADS", "2")))
    torch.manual_seed(1)
    model = CharGpt()
    inputs, targets = torch.randint(VOCABULARY, (2, batch, CONTEXT))
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        torch.distributed.init_process_group("gloo", init_method="file://" + os.environ["WEFT_RENDEZVOUS"] + ".torch",
                                             rank=rank, world_size=size)
        model = torch.nn.parallel.DistributedDataParallel(model)
        rows = batch // size
        inputs, targets = inputs[rank * rows:(rank + 1) * rows], targets[rank * rows:(rank + 1) * rows]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    times = []
    for _ in range(WARMUP + steps):
        start = time.perf_counter()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        times.append(1e3 * (time.perf_counter() - start))
    times = sorted(times[WARMUP:])
    if rank == 0:
        print(f"{size} rank{'' if size == 1 else 's'}: median step {times[len(times) // 2]:.2f} ms, best {times[0]:.2f} ms", flush=True)
    if size > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
