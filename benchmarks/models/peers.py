"""The peers' side of the suites `infer` and `train`.

Usage: peers.py eager|compile|bfloat16|onnx|openvino|ncnn|jax infer|train. Speaks the protocol of
benchmarks/common/contestant.h; cases.py says what the modes are.
"""
import os
import sys
import warnings

import torch

warnings.filterwarnings("ignore")  # of exporters

here = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(here, "../common"), here]
import cases
import conversions
from serve import serve


def infer(mode, case):
    load, check = cases.inference(mode, case)
    with torch.no_grad():
        run = load()
        check(run)
    turn = [0]

    def work():
        turn[0] += 1
        with torch.no_grad():
            run(turn[0] % 2)

    return work


def train(mode, case):
    step, check = cases.training(mode, case)
    check()
    return step


def make(mode, suite, case):
    if not cases.has(mode, suite, case):
        return None
    return (infer if suite == "infer" else train)(mode, case)


if __name__ == "__main__":
    serve(lambda case: make(sys.argv[1], sys.argv[2], case), conversions.THREADS)
