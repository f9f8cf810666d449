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


def products(batch, m, k, n, transposed):
    return (lambda a, b: a @ b.transpose(1, 2)) if transposed else (lambda a, b: a @ b), floats(batch, m, k), (
        floats(batch, n, k) if transposed else floats(batch, k, n))


def product64(x, y, transpose_x=False, transpose_y=False):
    return forward(lambda a, b: (a.transpose(-2, -1) if transpose_x else a) @ (b.transpose(-2, -1) if transpose_y else b),
                   floats(*x).double(), floats(*y).double())


def skinny(m, k, n, transposed):
    if transposed:
        return linear(m, k, n)
    return forward(lambda x, y: x @ y, floats(m, k), floats(k, n))


def mlp(layers, width):
    def function(x, *weights):
        for w, b in zip(weights[::2], weights[1::2]):
            x = torch.relu(F.linear(x, w, b))
        return x
    return forward(function, floats(1, width), *(t for _ in range(layers) for t in (floats(width, width), floats(width))))


def decode(layers, width):
    def function(x, *weights):
        for i in range(0, len(weights), 8):
            apply = lambda number, to: F.linear(to, weights[i + 2 * number], weights[i + 2 * number + 1])
            norm = lambda: F.layer_norm(x, (width,))
            x = x + apply(1, apply(0, norm())[:, 2 * width:])
            x = x + apply(3, F.gelu(apply(2, norm())))
        return x
    shapes = ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width))
    return forward(function, floats(1, width), *(t for _ in range(layers) for r, c in shapes for t in (floats(r, c), floats(r))))


SKINNY = [
    (1, 8192, 8192), (1, 4096, 4096), (1, 1024, 1024), (1, 512, 16384), (1, 16384, 512), (1, 4097, 4095),
    (2, 4096, 4096), (4, 4096, 4096), (8, 4096, 4096), (3, 4095, 4097), (8, 512, 16384), (8, 16384, 512),
    (4096, 4096, 1), (4096, 4096, 2), (4096, 4096, 4), (4096, 4096, 8), (16384, 512, 4), (4095, 4097, 3),
]


def attention(*sizes):
    return forward(*products(*sizes))


def attention_backward(batch, m, k, n, transposed):
    function, *inputs = products(batch, m, k, n, transposed)
    return backward(function, 2, *inputs, floats(batch, m, n))


def whole_attention(batch, heads, length, features, causal, differentiate=False):
    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    inputs = tuple(floats(batch, heads, length, features) for _ in range(4 if differentiate else 3))
    return backward(function, 3, *inputs) if differentiate else forward(function, *inputs)


def conv(batch, channels, outputs, image, kernel, stride, padding, groups, differentiate=False):
    def function(x, w):
        return F.conv2d(x, w, None, stride, padding, 1, groups)
    inputs = floats(batch, channels, image, image), floats(outputs, channels // groups, kernel, kernel)
    if not differentiate:
        return forward(function, *inputs)
    result = (image + 2 * padding - kernel) // stride + 1
    return backward(function, 2, *inputs, floats(batch, outputs, result, result))


def batch_norm(shape, training):
    c = shape[1]
    return forward(lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, training), floats(*shape), floats(c), floats(c), floats(c), torch.ones(c))


def batch_norm_backward(*shape):
    c = shape[1]
    return backward(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), 3, floats(*shape), floats(c), floats(c), floats(*shape))


def unary_backward(function, shape, result):
    return backward(function, 1, floats(*shape), floats(*result))


def rms_norm(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def chain(a, b):
    return torch.tanh(a * b + 1) * torch.sigmoid(a - b) + b


def chain_relu(a, b, c):
    return torch.relu(a * b + c)


def chain_unary(x):
    return torch.tanh(torch.exp(torch.sin(x)))


def max_pool(x):
    return F.max_pool2d(x, 3, 2, 1)


CASES = {
    "chain_tanh_sigmoid_16M": lambda: forward(chain, floats(1 << 24), floats(1 << 24)),
    "chain_add_mul_relu_4M": lambda: forward(lambda a, b, c: torch.relu(a * b + c), floats(2048, 2048), floats(2048, 2048), floats(2048)),
    "chain_tanh_sigmoid_backward_4M": lambda: backward(chain, 2, floats(1 << 22), floats(1 << 22), floats(1 << 22)),
    "chain_add_mul_relu_backward_4M": lambda: backward(
        chain_relu, 3, floats(2048, 2048), floats(2048, 2048), floats(2048), floats(2048, 2048)),
    "chain_sin_exp_tanh_4M": lambda: forward(chain_unary, floats(1 << 22)),
    "chain_sin_exp_tanh_backward_4M": lambda: unary_backward(chain_unary, (1 << 22,), (1 << 22,)),
    "silu_2048x2048": lambda: forward(lambda x: F.silu(x), floats(2048, 2048)),
    "silu_backward_2048x2048": lambda: unary_backward(lambda x: F.silu(x), (2048, 2048), (2048, 2048)),
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
    "rms_norm_1024x1024": lambda: forward(rms_norm, floats(1024, 1024), floats(1024)),
    "rms_norm_2048x128": lambda: forward(rms_norm, floats(2048, 128), floats(128)),
    "rms_norm_backward_1024x1024": lambda: backward(rms_norm, 2, floats(1024, 1024), floats(1024), floats(1024, 1024)),
    "batch_norm_training_16x64x56x56": lambda: batch_norm((16, 64, 56, 56), True),
    "batch_norm_training_16x512x7x7": lambda: batch_norm((16, 512, 7, 7), True),
    "batch_norm_inference_16x64x56x56": lambda: batch_norm((16, 64, 56, 56), False),
    "batch_norm_backward_16x64x56x56": lambda: batch_norm_backward(16, 64, 56, 56),
    "batch_norm_backward_16x512x7x7": lambda: batch_norm_backward(16, 512, 7, 7),
    "group_norm_16x64x56x56": lambda: forward(
        lambda x, w, b: F.group_norm(x, 32, w, b), floats(16, 64, 56, 56), floats(64), floats(64)),
    "group_norm_backward_16x64x56x56": lambda: backward(
        lambda x, w, b: F.group_norm(x, 32, w, b), 3, floats(16, 64, 56, 56), floats(64), floats(64), floats(16, 64, 56, 56)),
    "sum_all_1024x1024": lambda: forward(lambda x: x.sum(), floats(1024, 1024)),
    "sum_dim0_1024x1024": lambda: forward(lambda x: x.sum(0), floats(1024, 1024)),
    "sum_dim1_1024x1024": lambda: forward(lambda x: x.sum(1), floats(1024, 1024)),
    "max_dim1_1024x1024": lambda: forward(lambda x: x.amax(1), floats(1024, 1024)),
    "sum_dim0_64x128x256": lambda: forward(lambda x: x.sum(0), floats(64, 128, 256)),
    "sum_dim1_64x128x256": lambda: forward(lambda x: x.sum(1), floats(64, 128, 256)),
    "sum_dim2_64x128x256": lambda: forward(lambda x: x.sum(2), floats(64, 128, 256)),
    "mean_dims02_64x128x256": lambda: forward(lambda x: x.mean((0, 2)), floats(64, 128, 256)),
    "max_pool3_s2_16x64x112x112": lambda: forward(max_pool, floats(16, 64, 112, 112)),
    "max_pool3_s2_backward_16x64x112x112": lambda: unary_backward(max_pool, (16, 64, 112, 112), (16, 64, 56, 56)),
    "avg_pool2_16x64x56x56": lambda: forward(lambda x: F.avg_pool2d(x, 2), floats(16, 64, 56, 56)),
    "avg_pool2_backward_16x64x56x56": lambda: unary_backward(lambda x: F.avg_pool2d(x, 2), (16, 64, 56, 56), (16, 64, 28, 28)),
    "avg_pool_global_16x2048x7x7": lambda: forward(lambda x: F.adaptive_avg_pool2d(x, 1), floats(16, 2048, 7, 7)),
    "avg_pool_global_backward_16x2048x7x7": lambda: unary_backward(
        lambda x: F.adaptive_avg_pool2d(x, 1), (16, 2048, 7, 7), (16, 2048, 1, 1)),
    "max_pool2_16x64x56x56": lambda: forward(lambda x: F.max_pool2d(x, 2), floats(16, 64, 56, 56)),
    "avg_pool3_s2_16x64x57x57": lambda: forward(lambda x: F.avg_pool2d(x, 3, 2), floats(16, 64, 57, 57)),
    "mean_dims23_16x256x14x14": lambda: forward(lambda x: x.mean((2, 3)), floats(16, 256, 14, 14)),
    "mean_dim1_65536x8": lambda: forward(lambda x: x.mean(1), floats(65536, 8)),
    "max_dim1_65536x10": lambda: forward(lambda x: x.amax(1), floats(65536, 10)),
    "argmax_dim1_65536x10": lambda: forward(lambda x: x.argmax(1), floats(65536, 10)),
    "argmax_dim1_2048x1000": lambda: forward(lambda x: x.argmax(1), floats(2048, 1000)),
    "logsumexp_16384x50": lambda: forward(lambda x: torch.logsumexp(x, 1), floats(16384, 50)),
    "softmax_65536x10": lambda: forward(lambda x: torch.softmax(x, -1), floats(65536, 10)),
    "softmax_16384x50": lambda: forward(lambda x: torch.softmax(x, -1), floats(16384, 50)),
    "softmax_dim1_64x128x256": lambda: forward(lambda x: torch.softmax(x, 1), floats(64, 128, 256)),
    "softmax_dim0_64x128x512": lambda: forward(lambda x: torch.softmax(x, 0), floats(64, 128, 512)),
    "softmax_dim1_64x128x512": lambda: forward(lambda x: torch.softmax(x, 1), floats(64, 128, 512)),
    "softmax_dim2_64x128x512": lambda: forward(lambda x: torch.softmax(x, 2), floats(64, 128, 512)),
    "log_softmax_dim1_8x21x128x128": lambda: forward(lambda x: torch.log_softmax(x, 1), floats(8, 21, 128, 128)),
    "log_softmax_dim1_backward_8x21x128x128": lambda: backward(lambda x: torch.log_softmax(x, 1), 1, floats(8, 21, 128, 128), floats(8, 21, 128, 128)),
    "cumsum_dim0_64x128x512": lambda: forward(lambda x: x.cumsum(0), floats(64, 128, 512)),
    "cumsum_dim0_1024x1024": lambda: forward(lambda x: x.cumsum(0), floats(1024, 1024)),
    "cumsum_dim1_1024x1024": lambda: forward(lambda x: x.cumsum(1), floats(1024, 1024)),
    "slice_1022x1022_of_1024x1024": lambda: forward(lambda x: x[1:-1, 1:-1].contiguous(), floats(1024, 1024)),
    "every_second_of_1024x2048": lambda: forward(lambda x: x[:, ::2].contiguous(), floats(1024, 2048)),
    "pad_1024x1022": lambda: forward(lambda x: F.pad(x, (1, 1)), floats(1024, 1022)),
    "flip_1024x1024": lambda: forward(lambda x: x.flip(1), floats(1024, 1024)),
    "histogram_1M_of_256": lambda: forward(
        lambda i: torch.zeros(256).scatter_add(0, i, torch.ones(1 << 20)), torch.randint(256, (1 << 20,))),
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
    "sort_1M": lambda: forward(lambda x: torch.sort(x), floats(1 << 20)),
    "sort_4096x256": lambda: forward(lambda x: torch.sort(x), floats(4096, 256)),
    "sort_dim0_1024x1024": lambda: forward(lambda x: torch.sort(x, 0), floats(1024, 1024)),
    "topk50_32x50257": lambda: forward(lambda x: torch.topk(x, 50), floats(32, 50257)),
    "argsort_int64_256K": lambda: forward(lambda x: torch.argsort(x), torch.randint(1 << 62, (1 << 18,))),
    "argsort_int64_64x16384": lambda: forward(lambda x: torch.argsort(x), torch.randint(50257, (64, 16384))),
    "cross_entropy_2048x86": lambda: forward(lambda x, t: F.cross_entropy(x, t), floats(2048, 86), torch.randint(86, (2048,))),
    "cross_entropy_backward_2048x1024": lambda: backward(
        lambda x, t: F.cross_entropy(x, t), 1, floats(2048, 1024), torch.randint(1024, (2048,)), torch.ones(())),
    "cross_entropy_16384x10": lambda: forward(lambda x, t: F.cross_entropy(x, t), floats(16384, 10), torch.randint(10, (16384,))),
    "cross_entropy_backward_16384x10": lambda: backward(
        lambda x, t: F.cross_entropy(x, t), 1, floats(16384, 10), torch.randint(10, (16384,)), torch.ones(())),
    "dropout_1024x1024": lambda: forward(lambda x: F.dropout(x, 0.1), floats(1024, 1024)),
    "linear_gpt2_1x768x2304": lambda: linear(1, 768, 2304),
    "linear_1x1024x1024": lambda: linear(1, 1024, 1024),
    "linear_gpt2_1024x768x768": lambda: linear(1024, 768, 768),
    "linear_gpt2_1024x768x2304": lambda: linear(1024, 768, 2304),
    "linear_gpt2_1024x768x3072": lambda: linear(1024, 768, 3072),
    "linear_gpt2_1024x3072x768": lambda: linear(1024, 3072, 768),
    "linear_gpt2_head_64x768x50257": lambda: linear(64, 768, 50257),
    "linear_gpt2_backward_1024x768x768": lambda: linear_backward(1024, 768, 768),
    "linear_gpt2_backward_1024x768x3072": lambda: linear_backward(1024, 768, 3072),
    "linear_char_gpt_2048x128x512": lambda: linear(2048, 128, 512),
    "linear_char_gpt_backward_2048x128x512": lambda: linear_backward(2048, 128, 512),
    # GPT-2's 12 heads of 64 numbers, 512 tokens.
    "matmul64_32": lambda: product64((32, 32), (32, 32)),
    "matmul64_64": lambda: product64((64, 64), (64, 64)),
    "matmul64_100": lambda: product64((100, 100), (100, 100)),
    "matmul64_128": lambda: product64((128, 128), (128, 128)),
    "matmul64_256": lambda: product64((256, 256), (256, 256)),
    "matmul64_512": lambda: product64((512, 512), (512, 512)),
    "matmul64_1024": lambda: product64((1024, 1024), (1024, 1024)),
    "matmul64_left_transposed_512": lambda: product64((512, 512), (512, 512), True),
    "matmul64_right_transposed_512": lambda: product64((512, 512), (512, 512), False, True),
    "matmul64_batch_8x64": lambda: product64((8, 64, 64), (8, 64, 64)),
    "matmul64_batch_8x128": lambda: product64((8, 128, 128), (8, 128, 128)),
    "matmul64_batch_8x256": lambda: product64((8, 256, 256), (8, 256, 256)),
    "matmul64_4096x64x64": lambda: product64((4096, 64), (64, 64)),
    "matmul64_gram_4096x64": lambda: product64((4096, 64), (4096, 64), True),
    "matmul64_64x784x128": lambda: product64((64, 784), (128, 784), False, True),
    "matmul64_scores_12x512x64": lambda: product64((12, 512, 64), (12, 512, 64), False, True),
    "matmul64_values_12x512x64": lambda: product64((12, 512, 512), (12, 512, 64)),
    "matvec64_256": lambda: product64((256, 256), (256,)),
    "matvec64_1024": lambda: product64((1024, 1024), (1024,)),
    "matvec64_4096": lambda: product64((4096, 4096), (4096,)),
    "matvec64_transposed_1024": lambda: product64((1024, 1024), (1024,), True),
    "attention_bert_8x12x128x64": lambda: whole_attention(8, 12, 128, 64, False),
    "attention_vit_8x12x197x64": lambda: whole_attention(8, 12, 197, 64, False),
    "attention_gpt2_1x12x1024x64": lambda: whole_attention(1, 12, 1024, 64, True),
    "attention_long_1x8x4096x64": lambda: whole_attention(1, 8, 4096, 64, True),
    "attention_backward_bert_8x12x128x64": lambda: whole_attention(8, 12, 128, 64, False, True),
    "attention_backward_vit_8x12x197x64": lambda: whole_attention(8, 12, 197, 64, False, True),
    "attention_backward_gpt2_1x12x1024x64": lambda: whole_attention(1, 12, 1024, 64, True, True),
    "attention_backward_long_1x8x4096x64": lambda: whole_attention(1, 8, 4096, 64, True, True),
    "attention_scores_gpt2_12x512x64": lambda: attention(12, 512, 64, 512, True),
    "attention_values_gpt2_12x512x64": lambda: attention(12, 512, 512, 64, False),
    "attention_scores_gpt2_12x1x64": lambda: attention(12, 1, 64, 512, True),
    "attention_values_gpt2_12x1x64": lambda: attention(12, 1, 512, 64, False),
    "attention_scores_gpt2_backward_12x512x64": lambda: attention_backward(12, 512, 64, 512, True),
    "attention_values_gpt2_backward_12x512x64": lambda: attention_backward(12, 512, 512, 64, False),
    **{f"skinny_{'linear' if transposed else 'product'}_{m}x{k}x{n}": lambda m=m, k=k, n=n, transposed=transposed: skinny(m, k, n, transposed)
       for m, k, n in SKINNY for transposed in (True, False)},
    **{f"skinny_int8_{m}x4096x4096": lambda m=m: forward(lambda x, w: x @ w.t(), floats(m, 4096), floats(4096, 4096))
       for m in (1, 4, 8, 16)},
    "mlp_3x8192": lambda: mlp(3, 8192),
    "mlp_3x1024": lambda: mlp(3, 1024),
    "decode_4x768": lambda: decode(4, 768),
    "decode_2x2048": lambda: decode(2, 2048),
    # ResNet-50: batch, channels, outputs, image, kernel, stride, padding, groups.
    "conv7x7_s2_3_64_224_b1": lambda: conv(1, 3, 64, 224, 7, 2, 3, 1),
    "conv7x7_s2_3_64_224_b16": lambda: conv(16, 3, 64, 224, 7, 2, 3, 1),
    "conv7x7_s2_3_64_224_backward_b16": lambda: conv(16, 3, 64, 224, 7, 2, 3, 1, differentiate=True),
    "conv3x3_64_56_b1": lambda: conv(1, 64, 64, 56, 3, 1, 1, 1),
    "conv3x3_64_56_b16": lambda: conv(16, 64, 64, 56, 3, 1, 1, 1),
    "conv3x3_64_56_backward_b16": lambda: conv(16, 64, 64, 56, 3, 1, 1, 1, differentiate=True),
    "conv3x3_512_7_b1": lambda: conv(1, 512, 512, 7, 3, 1, 1, 1),
    "conv3x3_s2_128_56_b1": lambda: conv(1, 128, 128, 56, 3, 2, 1, 1),
    "conv3x3_s2_128_56_b16": lambda: conv(16, 128, 128, 56, 3, 2, 1, 1),
    "conv3x3_s2_128_56_backward_b16": lambda: conv(16, 128, 128, 56, 3, 2, 1, 1, differentiate=True),
    "conv1x1_256_64_56_b1": lambda: conv(1, 256, 64, 56, 1, 1, 0, 1),
    "conv1x1_256_64_56_b16": lambda: conv(16, 256, 64, 56, 1, 1, 0, 1),
    "conv1x1_256_64_56_backward_b16": lambda: conv(16, 256, 64, 56, 1, 1, 0, 1, differentiate=True),
    # MobileNetV2.
    "conv3x3_s2_3_32_224_b1": lambda: conv(1, 3, 32, 224, 3, 2, 1, 1),
    "conv3x3_s2_3_32_224_backward_b16": lambda: conv(16, 3, 32, 224, 3, 2, 1, 1, differentiate=True),
    "conv1x1_24_144_56_b1": lambda: conv(1, 24, 144, 56, 1, 1, 0, 1),
    "conv1x1_24_144_56_backward_b16": lambda: conv(16, 24, 144, 56, 1, 1, 0, 1, differentiate=True),
    "conv_depthwise3x3_144_56_b1": lambda: conv(1, 144, 144, 56, 3, 1, 1, 144),
    "conv_depthwise3x3_144_56_b16": lambda: conv(16, 144, 144, 56, 3, 1, 1, 144),
    "conv_depthwise3x3_144_56_backward_b16": lambda: conv(16, 144, 144, 56, 3, 1, 1, 144, differentiate=True),
    "conv_depthwise3x3_s2_144_56_b1": lambda: conv(1, 144, 144, 56, 3, 2, 1, 144),
    "conv_depthwise3x3_s2_144_56_backward_b16": lambda: conv(16, 144, 144, 56, 3, 2, 1, 144, differentiate=True),
}


def prepare(name, mode):
    function, inputs, differentiated, weight = CASES[name]()
    if mode == "compile":
        # A case's guards are not the next one's. Of a derivative, torch.compile compiles the
        # forward, and with it its backward.
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
