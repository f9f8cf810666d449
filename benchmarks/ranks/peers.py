"""PyTorch's side of the suite `ranks`: torch.distributed and DistributedDataParallel over Gloo.

Usage: peers.py RANKS THREADS. A job of its own, as worker.cpp; speaks the protocol of benchmarks/common/contestant.h.
"""
import os
import shutil
import sys
import tempfile
import time

RANKS, THREADS, BATCH = int(sys.argv[1]), int(sys.argv[2]), 16
SIZES = {"all_reduce/64MB": 64 << 20, "all_reduce/1KB": 1024}


def start_ranks():
    """(rank, pipes to the others); the other ranks are forked before anything has threads."""
    others = []
    for rank in range(1, RANKS):
        read, write = os.pipe()
        if os.fork() == 0:
            os.dup2(read, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.close(write)
            for earlier in others:
                earlier.close()
            return rank, []
        os.close(read)
        others.append(os.fdopen(write, "w"))
    return 0, others


def bind_rank(rank):
    """As worker.cpp: its part of the processors, if they can be dealt out evenly."""
    processors = sorted(os.sched_getaffinity(0))
    part = len(processors) // RANKS
    if part * RANKS == len(processors):
        os.sched_setaffinity(0, processors[rank * part:(rank + 1) * part])


def all_reduce(bytes_of):
    x = torch.zeros(bytes_of // 4)

    def work(n):
        for _ in range(n):
            torch.distributed.all_reduce(x)

    return work


def training(rank):
    model = CharGpt()
    inputs, targets = torch.randint(VOCABULARY, (2, BATCH, CONTEXT))
    if RANKS > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
        rows = BATCH // RANKS
        inputs, targets = inputs[rank * rows:(rank + 1) * rows], targets[rank * rows:(rank + 1) * rows]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)

    def work(n):
        for _ in range(n):
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        loss.item()

    work(20)
    return work


def main(rank, others):
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    print("ready", 0, flush=True)
    work = None
    for line in sys.stdin:
        for other in others:
            print(line, end="", file=other, flush=True)
        word, value = line.split()
        start = time.perf_counter()
        if word == "run":
            work(int(value))
            print(time.perf_counter() - start, flush=True)
            continue
        work = None
        if value in SIZES and RANKS > 1:
            work = all_reduce(SIZES[value])
        elif value == "char_gpt":
            work = training(rank)
        print(f"ready {time.perf_counter() - start}" if work else "none", flush=True)


if __name__ == "__main__":
    folder = tempfile.mkdtemp()
    rank, others = start_ranks()
    bind_rank(rank)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
    import torch
    import torch.distributed
    import torch.nn.functional as F
    from char_gpt import CONTEXT, VOCABULARY, CharGpt
    if RANKS > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    main(rank, others)
    for other in others:
        other.close()
    if RANKS > 1:
        torch.distributed.destroy_process_group()
    if rank == 0:
        for _ in others:
            os.wait()
        shutil.rmtree(folder)
