"""The peers' side of the suite `compile`: what worker.cpp prints.

Usage: peers.py eager|compile|onnx|openvino|ncnn|jax infer|train MODEL_BATCH. Prints "none" where
the peer has no such case, with the reason where that is not plain. Of onnx, openvino and ncnn, the
first call is that behind the file that they read: it is read, and its network made ready and run.
"""
import os
import sys
import time
import warnings

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
import torch

warnings.filterwarnings("ignore")  # of exporters

here = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(here, "../common"), os.path.join(here, "../models")]
import cases
import conversions
from serve import Absent, reason_of

CALLS = 4


def ready_and_check(kind, suite, case):
    """What readies the case and gives what is called, and a check of that."""
    if suite == "infer":
        return cases.inference(kind, case)
    step, check = cases.training(kind, case)
    return lambda: lambda batch: step(), lambda run: check()


def main():
    kind, suite, case = sys.argv[1:]
    torch.set_num_threads(conversions.THREADS)
    if not cases.has(kind, suite, case):
        print("none")
        return
    try:
        load, check = ready_and_check(kind, suite, case)
        seconds = []
        with torch.set_grad_enabled(suite == "train"):
            for _ in range(CALLS):
                start = time.perf_counter()
                run = run if seconds else load()
                run(0)
                seconds.append(time.perf_counter() - start)
            check(run)
    except Absent as error:
        print("none", reason_of(error))
        return
    print(seconds[0], min(seconds[1:]))


if __name__ == "__main__":
    main()
