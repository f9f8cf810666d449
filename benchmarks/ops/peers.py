"""PyTorch's side of the suite `ops`: the cases of cases.cpp by name.

Usage: peers.py eager|compile. Speaks the protocol of benchmarks/common/contestant.h.
"""
import os
import sys
import time

import torch
import torch.nn.functional as F


def floats(*shape):
    return torch.rand(shape) * 2 - 1


def forward(function, *inputs):
    return function, inputs, 0, None


def backward(function, differentiated, *inputs):
    """The derivative of function(*inputs[:-1]) by the first inputs; the last one weighs its results."""
    leaves = tuple(x.requires_grad_() for x in inputs[:differentiated]) + inputs[differentiated:-1]
    return function, leaves, differentiated, inputs[-1]


def linear(m, k, n):
    return forward(lambda x, w, b: F.linear(x, w, b), floats(m, k), floats(n, k), floats(n))


def linear_backward(m, k, n):
    return backward(lambda x, w: F.linear(x, w), 2, floats(m, k), floats(n, k), floats(m, n))


def norm_backward(m, n):
    return backward(lambda x, w, b: F.layer_norm(x, (n,), w, b), 3, floats(m, n), floats(n), floats(n), floats(m, n))


def chain(a, b):
    return torch.tanh(a * b + 1) * torch.sigmoid(a - b) + b


CASES = {
    "chain_tanh_sigmoid_16M": lambda: forward(chain, floats(1 << 24), floats(1 << 24)),
    "chain_add_mul_relu_4M": lambda: forward(lambda a, b, c: torch.relu(a * b + c), floats(2048, 2048), floats(2048, 2048), floats(2048)),
    "gelu_2048x512": lambda: forward(lambda x: F.gelu(x), floats(2048, 512)),
    "gelu_backward_2048x512": lambda: backward(lambda x: F.gelu(x), 1, floats(2048, 512), floats(2048, 512)),
    "softmax_1024x1024": lambda: forward(lambda x: torch.softmax(x, -1), floats(1024, 1024)),
    "softmax_8192x128": lambda: forward(lambda x: torch.softmax(x, -1), floats(8192, 128)),
    "softmax_dim0_1024x1024": lambda: forward(lambda x: torch.softmax(x, 0), floats(1024, 1024)),
    "softmax_backward_1024x1024": lambda: backward(lambda x: torch.softmax(x, -1), 1, floats(1024, 1024), floats(1024, 1024)),
    "log_softmax_1024x1024": lambda: forward(lambda x: torch.log_softmax(x, -1), floats(1024, 1024)),
    "log_softmax_backward_1024x1024": lambda: backward(lambda x: torch.log_softmax(x, -1), 1, floats(1024, 1024), floats(1024, 1024)),
    "layer_norm_1024x1024": lambda: forward(lambda x, w, b: F.layer_norm(x, (1024,), w, b), floats(1024, 1024), floats(1024), floats(1024)),
    "layer_norm_2048x128": lambda: forward(lambda x, w, b: F.layer_norm(x, (128,), w, b), floats(2048, 128), floats(128), floats(128)),
    "layer_norm_backward_1024x1024": lambda: norm_backward(1024, 1024),
    "layer_norm_backward_2048x128": lambda: norm_backward(2048, 128),
    "sum_all_1024x1024": lambda: forward(lambda x: x.sum(), floats(1024, 1024)),
    "sum_dim0_1024x1024": lambda: forward(lambda x: x.sum(0), floats(1024, 1024)),
    "sum_dim1_1024x1024": lambda: forward(lambda x: x.sum(1), floats(1024, 1024)),
    "max_dim1_1024x1024": lambda: forward(lambda x: x.amax(1), floats(1024, 1024)),
    "sum_dim0_64x128x256": lambda: forward(lambda x: x.sum(0), floats(64, 128, 256)),
    "sum_dim1_64x128x256": lambda: forward(lambda x: x.sum(1), floats(64, 128, 256)),
    "sum_dim2_64x128x256": lambda: forward(lambda x: x.sum(2), floats(64, 128, 256)),
    "mean_dims02_64x128x256": lambda: forward(lambda x: x.mean((0, 2)), floats(64, 128, 256)),
    "transpose_1024x1024": lambda: forward(lambda x: x.t().contiguous(), floats(1024, 1024)),
    "transpose_1000x1000": lambda: forward(lambda x: x.t().contiguous(), floats(1000, 1000)),
    "transpose_add_1024x1024": lambda: forward(lambda a, b: a.t() + b, floats(1024, 1024), floats(1024, 1024)),
    "split_heads_16x128x4x32": lambda: forward(lambda x: x.transpose(1, 2).contiguous(), floats(16, 128, 4, 32)),
    "embedding_2048_of_8192x128": lambda: forward(lambda i, w: F.embedding(i, w), torch.randint(8192, (16, 128)), floats(8192, 128)),
    "embedding_backward_2048_of_8192x128": lambda: backward(
        lambda w, i: F.embedding(i, w), 1, floats(8192, 128), torch.randint(8192, (16, 128)), floats(16, 128, 128)),
    "gather_dim1_1024x1024": lambda: forward(lambda x, i: torch.gather(x, 1, i), floats(1024, 1024), torch.randint(1024, (1024, 1024))),
    "scatter_add_dim0_1024x256": lambda: forward(
        lambda x, i, s: torch.scatter_add(x, 0, i, s), floats(512, 256), torch.randint(512, (1024, 256)), floats(1024, 256)),
    "scatter_add_dim1_1024x256": lambda: forward(
        lambda x, i, s: torch.scatter_add(x, 1, i, s), floats(1024, 128), torch.randint(128, (1024, 256)), floats(1024, 256)),
    "cross_entropy_2048x86": lambda: forward(lambda x, t: F.cross_entropy(x, t), floats(2048, 86), torch.randint(86, (2048,))),
    "cross_entropy_backward_2048x1024": lambda: backward(
        lambda x, t: F.cross_entropy(x, t), 1, floats(2048, 1024), torch.randint(1024, (2048,)), torch.ones(())),
    "dropout_1024x1024": lambda: forward(lambda x: F.dropout(x, 0.1), floats(1024, 1024)),
    "linear_gpt2_1024x768x2304": lambda: linear(1024, 768, 2304),
    "linear_gpt2_1024x768x3072": lambda: linear(1024, 768, 3072),
    "linear_gpt2_1024x3072x768": lambda: linear(1024, 3072, 768),
    "linear_gpt2_backward_1024x768x768": lambda: linear_backward(1024, 768, 768),
    "linear_char_gpt_2048x128x512": lambda: linear(2048, 128, 512),
    "linear_char_gpt_backward_2048x128x512": lambda: linear_backward(2048, 128, 512),
}


def prepare(name, mode):
    function, inputs, differentiated, weight = CASES[name]()
    if mode == "compile":
        # A case's guards are not the next one's. Of a derivative, torch.compile compiles the forward, and with it its backward.
        torch._dynamo.reset()
        function = torch.compile(function)
    if differentiated == 0:
        return lambda: function(*inputs)
    return lambda: torch.autograd.grad(function(*inputs), inputs[:differentiated], weight)


def main():
    mode = sys.argv[1]
    threads = int(os.environ.get("WEFT_NUM_THREADS", "2"))
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    print("ready 0", flush=True)
    run = None
    for line in sys.stdin:
        word, argument = line.split()
        start = time.perf_counter()
        if word == "case":
            run = prepare(argument, mode)
            for _ in range(3):
                run()
            print("ready", time.perf_counter() - start, flush=True)
        else:
            for _ in range(int(argument)):
                run()
            print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
