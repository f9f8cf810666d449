"""torch.compile's side of the suite `compile`: what worker.cpp prints.

Usage: peers.py infer|train MODEL_BATCH
"""
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../models"))
import models


def main():
    mode, case = sys.argv[1:]
    torch.set_num_threads(int(os.environ.get("WEFT_NUM_THREADS", "2")))
    model, inputs = models.make(case), models.example(case)
    if mode == "infer":
        model.eval()
    forward = torch.compile(model)
    step = models.step_of(case, model, forward, inputs)

    def infer():
        with torch.no_grad():
            return forward(*inputs)

    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        infer() if mode == "infer" else step().item()
        seconds.append(time.perf_counter() - start)
    print(seconds[0], min(seconds[1:]))


if __name__ == "__main__":
    main()
