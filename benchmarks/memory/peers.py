"""PyTorch's side of the suite `memory`: what worker.cpp does in its mode `training`.

Usage: peers.py MODEL_BATCH. Prints the bytes that the process took above what it had before the
model was made, 0, the seconds of the fastest step, and what the process had over one more step.
"""
import os
import sys
import threading
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../models"))
STEPS = 4
SAMPLES = 150  # of a step, about


def status_bytes(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))


def over_a_step(step, before, seconds):
    """Seconds and bytes, in turns, as another thread sees them."""
    samples, ended = [], threading.Event()
    start = time.perf_counter()

    def look():
        while not ended.is_set():
            samples.extend((time.perf_counter() - start, status_bytes("VmRSS") - before))
            time.sleep(seconds / SAMPLES)

    sampler = threading.Thread(target=look)
    sampler.start()
    step()
    ended.set()
    sampler.join()
    return samples


def main():
    case = sys.argv[1]
    torch.set_num_threads(int(os.environ.get("WEFT_NUM_THREADS", "2")))
    import models  # what torchvision and transformers take belongs to the process

    # What runs need anyhow, as in worker.cpp.
    loss = torch.nn.Conv2d(8, 8, 3)(torch.ones(2, 8, 16, 16)).relu().mean()
    (loss + torch.nn.Linear(64, 64)(torch.ones(64, 64)).sum()).backward()
    before = status_bytes("VmRSS")
    model = models.make(case)
    step = models.step_of(case, model, model, models.example(case), fast_update=False)
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step().item()
        seconds.append(time.perf_counter() - start)
    peak = status_bytes("VmHWM") - before
    print(peak, 0, min(seconds), *over_a_step(lambda: step().item(), before, min(seconds)))


if __name__ == "__main__":
    main()
