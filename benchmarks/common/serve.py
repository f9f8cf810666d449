"""The loop of a peer that has cases; the protocol is that of contestant.h."""
import sys
import time

import torch


def serve(make_case, threads):
    """make_case(name) gives what is measured, or None where the peer has no such case."""
    torch.set_num_threads(threads)
    work = None
    print("ready 0", flush=True)
    for line in sys.stdin:
        word, argument = line.split()
        start = time.perf_counter()
        if word == "case":
            work = make_case(argument)
            if work is None:
                print("none", flush=True)
                continue
            for _ in range(3):
                work()
            print("ready", time.perf_counter() - start, flush=True)
        else:
            for _ in range(int(argument)):
                work()
            print(time.perf_counter() - start, flush=True)
