#!/usr/bin/env python3
"""Makes the files in data/ from PyTorch (written with 2.15, CPU). Needs torch and numpy; building and testing Weft do not.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch numpy
    /tmp/golden/bin/python tests/golden/make_golden.py

One safetensors file a topic; tensors are named <case>.<what>. Inputs are stored beside the results, so that the tests need no
random generator in common with PyTorch.
"""
import json
import math
import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F

DATA = pathlib.Path(__file__).parent / "data"
TEXT = pathlib.Path(__file__).parent.parent.parent / "LICENSE"
# In the order of weft::DType.
DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.int8, torch.int16, torch.uint8]
TAGS = {np.dtype("float32"): "F32", np.dtype("float64"): "F64", np.dtype("int32"): "I32", np.dtype("int64"): "I64", np.dtype("bool"): "BOOL",
        np.dtype("float16"): "F16", np.dtype("int8"): "I8", np.dtype("int16"): "I16", np.dtype("uint8"): "U8"}


def save(name, tensors):
    header, blobs, offset = {}, [], 0
    for key, value in tensors.items():
        tag = None
        if isinstance(value, torch.Tensor):
            value = value.detach()
            if value.dtype == torch.bfloat16:  # numpy has none
                tag, value = "BF16", value.view(torch.int16)
            value = value.numpy()
        array = np.ascontiguousarray(value)
        array = array.reshape(np.shape(value))  # ascontiguousarray makes rank 0 rank 1
        header[key] = {"dtype": tag or TAGS[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        blobs.append(array.tobytes())
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (DATA / name).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    print(f"{name}: {len(tensors)} tensors, {8 + len(text) + offset} bytes")


def promotion():
    def dtype(op, *args):  # -1: refused
        try:
            return DTYPES.index(op(*args).dtype)
        except RuntimeError:
            return -1

    def table(rows, columns, op):
        return np.array([[dtype(op, r, c) for c in columns] for r in rows], dtype=np.int64)

    one = [torch.ones(2, dtype=d) for d in DTYPES]
    zero_dim = [torch.ones((), dtype=d) for d in DTYPES]
    literals = [True, 1, 1.0]  # bool, int, float
    tables = {}
    for name, op in {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "lt": lambda a, b: a < b, "pow": lambda a, b: a**b,
                     "remainder": lambda a, b: a % b, "where": lambda a, b: torch.where(torch.tensor(True), a, b)}.items():
        tables[f"{name}.tensor_tensor"] = table(one, one, op)
        tables[f"{name}.tensor_scalar_tensor"] = table(one, zero_dim, op)
        tables[f"{name}.scalar_tensor_scalar_tensor"] = table(zero_dim, zero_dim, op)
        # PyTorch takes a bool as the exponent of bools, and only of them as a number; Weft refuses
        # it, as PyTorch does two tensors.
        numbers = literals[1:] if name == "pow" else literals
        tables[f"{name}.tensor_literal"] = table(one, numbers, op)
        tables[f"{name}.scalar_tensor_literal"] = table(zero_dim, numbers, op)
    for name, op in {"sum": torch.sum, "prod": torch.prod, "mean": torch.mean, "max": torch.max, "cumsum": lambda x: x.cumsum(0), "exp": torch.exp,
                     "neg": torch.neg, "abs": torch.abs, "floor": torch.floor}.items():
        tables[name] = np.array([dtype(op, x) for x in one], dtype=np.int64)
    save("promotion.safetensors", tables)


def dtypes():
    """Values in the narrow dtypes: integers wrap, bfloat16 and float16 round."""
    torch.manual_seed(6)
    tensors = {}
    for d in [torch.int8, torch.int16, torch.uint8]:
        name = str(d)[6:]
        info = torch.iinfo(d)
        x = torch.randint(info.min, info.max + 1, (64,), dtype=d)
        y = torch.randint(info.min, info.max + 1, (64,), dtype=d)
        x[:4], y[:4] = torch.tensor([info.min, info.max, info.min, 0], dtype=d), torch.tensor([info.max, info.max, info.min, info.min], dtype=d)
        small = torch.randint(0 if d == torch.uint8 else -3, 6, (64,), dtype=d)
        tensors |= {f"{name}.x": x, f"{name}.y": y, f"{name}.small": small, f"{name}.add": x + y, f"{name}.sub": x - y, f"{name}.mul": x * y,
                    f"{name}.neg": -x, f"{name}.abs": x.abs(), f"{name}.pow": x**small, f"{name}.square": x**2, f"{name}.and": x & y,
                    f"{name}.not": ~x, f"{name}.min": torch.minimum(x, y), f"{name}.lt": x < y, f"{name}.sum": x.sum(), f"{name}.prod": small.abs().add(1).prod(),
                    f"{name}.cumsum": x.cumsum(0), f"{name}.max": x.max(), f"{name}.div": x / small.abs().add(1), f"{name}.exp": small.exp(),
                    f"{name}.to_bfloat16": x.to(torch.bfloat16), f"{name}.matmul": x.view(8, 8) @ y.view(8, 8)}
    for d in [torch.bfloat16, torch.float16]:
        name = str(d)[6:]
        x = torch.randn(64, 32).to(d)
        y = torch.randn(64, 32).to(d)
        w = (torch.randn(16, 32) / 5).to(d)
        b = torch.randn(16).to(d)
        rows = torch.randint(0, 16, (64,))
        tensors |= {f"{name}.x": x, f"{name}.y": y, f"{name}.w": w, f"{name}.b": b, f"{name}.rows": rows, f"{name}.add": x + y, f"{name}.mul": x * y,
                    f"{name}.div": x / y, f"{name}.scaled": x * 0.1, f"{name}.exp": x.exp(), f"{name}.tanh": x.tanh(), f"{name}.sqrt": x.abs().sqrt(),
                    f"{name}.silu": F.silu(x), f"{name}.gelu": F.gelu(x), f"{name}.sum": x.sum(1), f"{name}.mean": x.mean(0), f"{name}.var": x.var(1),
                    f"{name}.max": x.max(1).values, f"{name}.softmax": x.softmax(1), f"{name}.layer_norm": F.layer_norm(x, (32,)),
                    f"{name}.matmul": x @ y.T, f"{name}.linear": F.linear(x, w, b), f"{name}.mse_loss": F.mse_loss(x, y),
                    f"{name}.to_int8": (x * 10).to(torch.int8), f"{name}.index_add": torch.zeros(16, 32, dtype=d).index_add(0, rows[:16], x[:16])}
    save("dtypes.safetensors", tensors)


class Cases:
    """Results, and the derivatives of sum(weight * result) by each input that asks for one."""

    def __init__(self):
        self.tensors = {}

    def add(self, name, fn, **inputs):
        leaves = {}
        for key, value in inputs.items():
            self.tensors[f"{name}.{key}"] = value.detach().clone()
            leaves[key] = value.detach().clone().requires_grad_(value.is_floating_point())
        out = fn(*leaves.values())
        self.tensors[f"{name}.out"] = out
        weight = torch.randn(out.shape, dtype=out.dtype)
        self.tensors[f"{name}.weight"] = weight
        wanted = {k: v for k, v in leaves.items() if v.requires_grad}
        for key, grad in zip(wanted, torch.autograd.grad((out * weight).sum(), list(wanted.values()), allow_unused=True)):
            self.tensors[f"{name}.grad.{key}"] = torch.zeros_like(wanted[key]) if grad is None else grad


def ops():
    torch.manual_seed(1)
    c = Cases()
    shapes = [((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1)), ((), (2, 3)), ((5, 1, 1), (1, 2, 3)), ((0, 3), (3,)), ((1,), (1, 1))]
    for i, (a, b) in enumerate(shapes):
        c.add(f"broadcast{i}", lambda x, y: x * y + x, x=torch.randn(a), y=torch.randn(b))
    for i, (a, b) in enumerate([((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((7, 1, 4), (4,))]):
        c.add(f"matmul{i}", torch.matmul, x=torch.randn(a), y=torch.randn(b))

    for dim in (0, 1, 2):
        c.add(f"softmax{dim}", lambda x: F.softmax(x, dim), x=4 * torch.randn(3, 4, 5))
        c.add(f"log_softmax{dim}", lambda x: F.log_softmax(x, dim), x=4 * torch.randn(3, 4, 5))
    extreme = torch.tensor([[1e4, -1e4, 1e4 - 1, 0.0], [-math.inf, 1.0, 2.0, -math.inf], [80.0, 90.0, 100.0, 110.0]])
    c.add("softmax_extreme", lambda x: F.softmax(x, 1), x=extreme)
    c.add("log_softmax_large", lambda x: F.log_softmax(x, 1), x=1e3 * torch.randn(3, 9))

    x, w, b = 3 * torch.randn(4, 5, 8) + 1, torch.randn(8), torch.randn(8)
    c.add("layer_norm_affine", lambda x, w, b: F.layer_norm(x, (8,), w, b), x=x, w=w, b=b)
    c.add("layer_norm_plain", lambda x: F.layer_norm(x, (8,)), x=x)
    c.add("layer_norm_no_bias", lambda x, w: F.layer_norm(x, (8,), w), x=x, w=w)
    c.add("layer_norm_two_dims", lambda x, w, b: F.layer_norm(x, (5, 8), w, b, eps=1e-3), x=x, w=torch.randn(5, 8), b=torch.randn(5, 8))

    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 6)
    sdpa = F.scaled_dot_product_attention
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        c.add("attention", lambda q, k, v: sdpa(q, k, v), q=q, k=k, v=v)
        c.add("attention_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), q=q, k=k, v=v)
        c.add("attention_scale", lambda q, k, v: sdpa(q, k, v, scale=0.3), q=q, k=k, v=v)
        c.add("attention_keys", lambda q, k, v: sdpa(q, k, v), q=torch.randn(2, 3, 4), k=torch.randn(2, 7, 4), v=torch.randn(2, 7, 2))
        mask = torch.rand(2, 1, 5, 5) > 0.4
        mask[..., 0] = True
        c.add("attention_bool_mask", lambda q, k, v, mask: sdpa(q, k, v, attn_mask=mask), q=q, k=k, v=v, mask=mask)
        hidden = mask.clone()
        hidden[0, 0, 2] = False  # a query that sees nothing
        c.add("attention_hidden_row", lambda q, k, v, mask: sdpa(q, k, v, attn_mask=mask), q=q, k=k, v=v, mask=hidden)
        c.add("attention_float_mask", lambda q, k, v, mask: sdpa(q, k, v, attn_mask=mask), q=q, k=k, v=v, mask=torch.randn(5, 5))

    logits, targets = 3 * torch.randn(6, 7), torch.tensor([0, 6, 3, 3, 1, 5])
    some = torch.tensor([0, -100, 3, -100, 1, 5])
    for reduction in ("mean", "sum", "none"):
        c.add(f"cross_entropy_{reduction}", lambda x, t: F.cross_entropy(x, t, reduction=reduction), x=logits, t=targets)
        c.add(f"cross_entropy_ignore_{reduction}", lambda x, t: F.cross_entropy(x, t, reduction=reduction), x=logits, t=some)
        c.add(f"mse_{reduction}", lambda x, y: F.mse_loss(x, y, reduction=reduction), x=torch.randn(3, 4), y=torch.randn(3, 4))
    c.add("cross_entropy_ignore_2_mean", lambda x, t: F.cross_entropy(x, t, ignore_index=2), x=logits, t=torch.tensor([2, 2, 1, 0, 2, 6]))
    c.add("cross_entropy_large_mean", lambda x, t: F.cross_entropy(x, t), x=1e4 * torch.randn(4, 9), t=torch.tensor([0, 8, 4, 2]))

    line = torch.tensor([-30.0, -6.0, -2.5, -1.0, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, 6.0, 30.0])
    for name in ("abs", "exp", "tanh", "erf", "sigmoid", "relu"):
        c.add(f"unary_{name}", getattr(torch, name), x=line)
    for name in ("log", "sqrt", "rsqrt"):
        c.add(f"unary_{name}", getattr(torch, name), x=line.abs() + 1e-3)
    c.add("gelu_none", lambda x: F.gelu(x), x=line)
    c.add("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), x=line)
    c.add("pow", torch.pow, x=torch.tensor([0.0, 0.0, 0.0, 2.0, 2.0, -2.0, 1.5, 4.0]), y=torch.tensor([0.0, 1.0, 2.5, 0.0, -1.0, 3.0, 0.5, 0.5]))
    ties = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [5.0, -1.0, 0.0]])
    c.add("amax_ties", lambda x: x.amax(1), x=ties)
    c.add("maximum_ties", torch.maximum, x=ties, y=ties.flip(0))
    c.add("minimum_ties", torch.minimum, x=ties, y=ties.flip(0))
    c.add("mean", lambda x: x.mean((0, 2)), x=torch.randn(2, 3, 4))
    c.add("var", lambda x: x.var(1), x=torch.randn(2, 5))

    index = torch.tensor([[0, 2, 1], [1, 1, 0]])
    c.add("gather", lambda x, i: x.gather(1, i), x=torch.randn(2, 3), i=index)
    c.add("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), x=torch.randn(3, 3), i=index, s=torch.randn(2, 3))
    c.add("index_select", lambda x, i: x.index_select(1, i), x=torch.randn(2, 4, 3), i=torch.tensor([3, 0, 3]))
    c.add("embedding", lambda x, i: F.embedding(i, x), x=torch.randn(5, 3), i=torch.tensor([[1, 4], [1, 0]]))
    save("ops.safetensors", c.tensors)


def functions():
    """Elementwise functions, reductions, movement and losses, in their own file, so that ops() draws what it always drew."""
    torch.manual_seed(4)
    c = Cases()
    line = torch.tensor([-30.0, -6.0, -2.5, -1.5, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 1.5, 3.0, 6.0, 30.0, 100.0])
    for name in ("sign", "expm1", "sin", "cos", "floor", "ceil", "round"):
        c.add(f"unary_{name}", getattr(torch, name), x=line.clamp(max=80))
    c.add("unary_log1p", torch.log1p, x=line.abs() - 0.999)
    for name in ("silu", "softplus", "elu", "selu", "leaky_relu", "logsigmoid", "mish", "hardsigmoid", "hardswish"):
        c.add(f"activation_{name}", getattr(F, name), x=line)
    c.add("elu_alpha", lambda x: F.elu(x, alpha=0.3), x=line)
    c.add("remainder", torch.remainder, x=torch.tensor([5.0, -5, 5, -5, 6, -6, 0.75, -1e-3]), y=torch.tensor([3.0, 3, -3, -3, 3, 3, 0.5, 7]))
    c.add("clamp", lambda x: x.clamp(-1, 0.5), x=line)
    c.add("clamp_min", lambda x: x.clamp(min=0.5), x=line)
    c.add("clamp_tensors", lambda x, low, high: torch.clamp(x, low, high), x=torch.randn(4, 5), low=0.3 * torch.randn(5) - 0.5, high=0.3 * torch.randn(4, 1) + 0.5)

    ties = torch.tensor([[1.0, 3.0, 1.0], [2.0, 2.0, 2.0], [5.0, -1.0, 0.0]])
    c.add("amin_ties", lambda x: x.amin(1), x=ties)
    c.add("prod", lambda x: x.prod(1), x=torch.randn(3, 5))
    c.add("prod_zeros", lambda x: x.prod(1), x=torch.tensor([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0], [1.0, -2.0, 4.0]]))
    c.add("cumsum0", lambda x: x.cumsum(0), x=torch.randn(4, 3))
    c.add("cumsum1", lambda x: x.cumsum(1), x=torch.randn(3, 7))

    image = torch.randn(2, 3, 4, 5)
    c.add("flip", lambda x: x.flip((1, 3)), x=image)
    c.add("pad_constant", lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), x=image)
    c.add("pad_cut", lambda x: F.pad(x, (-1, 2, 1, -2)), x=image)
    c.add("pad_reflect", lambda x: F.pad(x, (2, 1, 3, 0), mode="reflect"), x=image)
    c.add("pad_replicate", lambda x: F.pad(x, (2, 1, 0, 4), mode="replicate"), x=image)
    c.add("repeat_interleave", lambda x: x.repeat_interleave(3, 1), x=torch.randn(2, 3))
    c.add("repeat_tiles", lambda x: x.repeat(2, 1, 3), x=torch.randn(2, 3))
    row, column = torch.tensor([2, 0, -1]), torch.tensor([[1], [3]])
    c.add("index_rows", lambda x, i: x[i], x=torch.randn(4, 3), i=row)
    c.add("index_pairs", lambda x, i, j: x[:, i, j], x=torch.randn(2, 3, 4), i=row, j=column)
    c.add("index_apart", lambda x, i, j: x[i, :, j], x=torch.randn(3, 2, 4), i=row, j=column)
    c.add("index_mask", lambda x, m: x[m], x=torch.randn(3, 4), m=torch.rand(3, 4) > 0.5)
    c.add("index_mask_rows", lambda x, m: x[m, 1:], x=torch.randn(4, 3), m=torch.tensor([True, False, True, True]))
    c.add("index_put", lambda x, v, i: x.clone().index_put((i,), v), x=torch.randn(4, 3), v=torch.randn(2, 3), i=torch.tensor([3, 1]))
    c.add("index_put_add", lambda x, v, i: x.clone().index_put((i,), v, accumulate=True), x=torch.randn(4, 3), v=torch.randn(3, 3), i=torch.tensor([3, 1, 3]))
    c.add("index_put_pairs", lambda x, v, i, j: x.clone().index_put((i, j), v), x=torch.randn(4, 3), v=torch.randn(2, 1), i=torch.tensor([[0, 1]]), j=torch.tensor([[2], [0]]))

    log_probs, targets = torch.randn(6, 7).log_softmax(1), torch.tensor([0, -100, 3, -100, 1, 5])
    x, y = 3 * torch.randn(3, 4), torch.rand(3, 4)
    for reduction in ("mean", "sum", "none"):
        c.add(f"nll_{reduction}", lambda x, t: F.nll_loss(x, t, reduction=reduction), x=log_probs, t=targets)
        c.add(f"bce_{reduction}", lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), x=x, y=y)
        c.add(f"l1_{reduction}", lambda x, y: F.l1_loss(x, y, reduction=reduction), x=x, y=y)
        c.add(f"huber_{reduction}", lambda x, y: F.huber_loss(x, y, reduction=reduction, delta=0.7), x=x, y=y)
        c.add(f"smooth_l1_{reduction}", lambda x, y: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.4), x=x, y=y)
        c.add(f"kl_{reduction}", lambda x, y: F.kl_div(x, y, reduction=reduction), x=x.log_softmax(1), y=torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 3))
        c.add(f"kl_log_{reduction}", lambda x, y: F.kl_div(x, y, reduction=reduction, log_target=True), x=x.log_softmax(1), y=y.log_softmax(1))
    c.add("bce_weighted", lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor([0.5, 2.0, 1.0, 3.0])), x=x, y=y)
    c.add("bce_large", lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"), x=torch.tensor([100.0, -100.0, 40.0, -40.0]), y=torch.tensor([1.0, 0.0, 0.0, 1.0]))
    save("functions.safetensors", c.tensors)


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al. 2023; PyTorch has none."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - lr * group["weight_decay"]).sub_(lr * torch.sign(beta1 * m + (1 - beta1) * p.grad))
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def images():
    torch.manual_seed(4)
    c = Cases()
    c.add("conv2d_plain", lambda x, w, b: F.conv2d(x, w, b), x=torch.randn(2, 3, 5, 6), w=torch.randn(4, 3, 3, 2), b=torch.randn(4))
    c.add("conv2d_all", lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 3), x=torch.randn(2, 6, 7, 6), w=torch.randn(3, 2, 3, 3))
    c.add("conv2d_large", lambda x, w, b: F.conv2d(x, w, b, 1, 1), x=torch.randn(3, 8, 9, 9), w=torch.randn(8, 8, 3, 3), b=torch.randn(8))
    c.add("conv_transpose2d_plain", lambda x, w, b: F.conv_transpose2d(x, w, b), x=torch.randn(2, 3, 4, 3), w=torch.randn(3, 2, 3, 2), b=torch.randn(2))
    c.add("conv_transpose2d_all", lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2), x=torch.randn(2, 4, 3, 4), w=torch.randn(4, 3, 3, 3), b=torch.randn(6))
    c.add("conv_transpose2d_dilated", lambda x, w: F.conv_transpose2d(x, w, None, 1, 1, 0, 1, 2), x=torch.randn(1, 2, 4, 5), w=torch.randn(2, 2, 2, 3))
    c.add("max_pool2d_plain", lambda x: F.max_pool2d(x, 2), x=torch.randn(2, 3, 4, 7))
    c.add("max_pool2d_padded", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), x=torch.randn(2, 2, 6, 7))
    c.add("max_pool2d_dilated", lambda x: F.max_pool2d(x, (2, 3), (1, 2), 1, (2, 1)), x=torch.randn(1, 2, 6, 7))
    c.add("max_pool2d_ties", lambda x: F.max_pool2d(x, 3, 1, 1), x=torch.randint(0, 3, (2, 2, 6, 6)).float())
    odd = torch.randn(2, 2, 6, 6)
    odd[0, 0, 2, 2:4] = math.nan
    odd[1, 1] = -math.inf
    c.add("max_pool2d_nan", lambda x: F.max_pool2d(x, 3, 1, 1), x=odd)
    c.add("avg_pool2d_plain", lambda x: F.avg_pool2d(x, 2), x=torch.randn(2, 3, 4, 7))
    c.add("avg_pool2d_padded", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), x=torch.randn(2, 2, 6, 7))
    c.add("avg_pool2d_inside", lambda x: F.avg_pool2d(x, (3, 2), (2, 1), 1, count_include_pad=False), x=torch.randn(2, 2, 6, 7))
    c.add("adaptive_avg_pool2d_3x2", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), x=torch.randn(2, 2, 7, 5))
    c.add("adaptive_avg_pool2d_1", lambda x: F.adaptive_avg_pool2d(x, 1), x=torch.randn(2, 3, 6, 4))
    x, w, b, mean, variance = 3 * torch.randn(4, 3, 5, 2) + 1, torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3) + 0.1
    c.add("batch_norm_training", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x=x, w=w, b=b)
    c.add("batch_norm_evaluation", lambda x, w, b: F.batch_norm(x, mean, variance, w, b, False), x=x, w=w, b=b)
    running = mean.clone(), variance.clone()
    F.batch_norm(x, *running, w, b, True, momentum=0.3)
    c.tensors |= {"running.x": x, "running.mean": mean, "running.variance": variance, "running.mean_after": running[0], "running.variance_after": running[1]}
    c.add("group_norm_affine", lambda x, w, b: F.group_norm(x, 3, w, b), x=torch.randn(2, 6, 3, 4), w=torch.randn(6), b=torch.randn(6))
    c.add("group_norm_plain", lambda x: F.group_norm(x, 2), x=torch.randn(3, 4, 5))
    c.add("rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-6), x=torch.randn(4, 6), w=torch.randn(6))
    for name, size in (("up", (7, 9)), ("down", (2, 3))):
        c.add(f"resize_nearest_{name}", lambda x: F.interpolate(x, size), x=torch.randn(2, 2, 4, 5))
        c.add(f"resize_bilinear_{name}", lambda x: F.interpolate(x, size, mode="bilinear"), x=torch.randn(2, 2, 4, 5))
        c.add(f"resize_corners_{name}", lambda x: F.interpolate(x, size, mode="bilinear", align_corners=True), x=torch.randn(2, 2, 4, 5))
    save("images.safetensors", c.tensors)


def optimizers():
    torch.manual_seed(2)
    steps, start = 12, [torch.randn(3, 4), torch.randn(5)]
    grads = [[torch.randn_like(p) for p in start] for _ in range(steps)]
    out = {f"start.{i}": p for i, p in enumerate(start)}
    out |= {f"grads.{i}": torch.stack([g[i] for g in grads]) for i in range(2)}

    def trajectory(name, make, schedule=None):
        params = [p.clone().requires_grad_() for p in start]
        optimizer = make(params)
        scheduler = schedule(optimizer) if schedule else None
        history, rates = [[], []], []
        for step in range(steps):
            for p, g in zip(params, grads[step]):
                p.grad = g.clone()
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if scheduler:
                scheduler.step()
            for i, p in enumerate(params):
                history[i].append(p.detach().clone())
        for i in range(2):
            out[f"{name}.{i}"] = torch.stack(history[i])
        if scheduler:
            out[f"{name}.rates"] = np.array(rates)

    trajectory("sgd", lambda p: torch.optim.SGD(p, lr=0.1))
    trajectory("sgd_momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    trajectory("sgd_momentum_decay", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05))
    trajectory("sgd_nesterov", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True))
    trajectory("sgd_dampening", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, dampening=0.3))
    trajectory("adamw", lambda p: torch.optim.AdamW(p, lr=1e-2))
    trajectory("adamw_options", lambda p: torch.optim.AdamW(p, lr=3e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1))
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR
    trajectory("sgd_nesterov_decay", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, weight_decay=0.05, nesterov=True))
    trajectory("adam", lambda p: torch.optim.Adam(p, lr=1e-2))
    trajectory("adam_options", lambda p: torch.optim.Adam(p, lr=3e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1))
    trajectory("rmsprop", lambda p: torch.optim.RMSprop(p, lr=1e-2))
    trajectory("rmsprop_options", lambda p: torch.optim.RMSprop(p, lr=1e-2, alpha=0.9, eps=1e-4, weight_decay=0.1, momentum=0.8, centered=True))
    trajectory("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.1))
    trajectory("adagrad_options", lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.2, eps=1e-6))
    trajectory("lion", lambda p: Lion(p, 1e-2, (0.9, 0.99), 0.1))
    trajectory("sgd_linear", lambda p: torch.optim.SGD(p, lr=0.2), lambda o: torch.optim.lr_scheduler.LinearLR(o, start_factor=0.25, end_factor=1.0, total_iters=5))
    trajectory("sgd_step", lambda p: torch.optim.SGD(p, lr=0.2), lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=4, gamma=0.3))
    trajectory("sgd_exponential", lambda p: torch.optim.SGD(p, lr=0.2), lambda o: torch.optim.lr_scheduler.ExponentialLR(o, gamma=0.8))
    averages = [start[0].clone()]
    for step in range(steps):  # of what SGD makes of the first parameter
        averages.append(torch.lerp(averages[-1], out["sgd.0"][step], 1 - 0.9))
    out["ema.0"] = torch.stack(averages[1:])
    trajectory("sgd_cosine", lambda p: torch.optim.SGD(p, lr=0.2), lambda o: cosine(o, T_max=steps, eta_min=0.01))

    for name, limit in (("clip", 1.0), ("clip_loose", 100.0)):
        params = [p.clone().requires_grad_() for p in start]
        for p, g in zip(params, grads[0]):
            p.grad = g.clone()
        out[f"{name}.norm"] = torch.nn.utils.clip_grad_norm_(params, limit)
        out[f"{name}.0"], out[f"{name}.1"] = params[0].grad, params[1].grad
    save("optim.safetensors", out)


WIDTH, HEADS, LAYERS, CONTEXT, BATCH, STEPS = 32, 4, 2, 32, 4, 50


def gpt_weights(vocabulary):
    """Pre-norm blocks, learned positions, exact GELU, a final LayerNorm, an untied head without bias. Named as the
    modules of weft::nn name them; [out, in] weights."""
    normal = lambda *shape: 0.02 * torch.randn(*shape)
    w = {"tok.weight": normal(vocabulary, WIDTH), "pos.weight": normal(CONTEXT, WIDTH)}
    for i in range(LAYERS):
        b = f"blocks.{i}."
        for norm in ("norm1", "norm2"):
            w[b + norm + ".weight"], w[b + norm + ".bias"] = torch.ones(WIDTH), torch.zeros(WIDTH)
        for name, rows, columns in [(f"self_attn.{n}_proj", WIDTH, WIDTH) for n in ("q", "k", "v", "out")] + [("linear1", 4 * WIDTH, WIDTH), ("linear2", WIDTH, 4 * WIDTH)]:
            w[b + name + ".weight"], w[b + name + ".bias"] = normal(rows, columns), normal(rows)
    w["norm.weight"], w["norm.bias"] = torch.ones(WIDTH), torch.zeros(WIDTH)
    w["head.weight"] = normal(vocabulary, WIDTH)
    return w


def gpt_logits(w, tokens):
    linear = lambda x, name: F.linear(x, w[name + ".weight"], w[name + ".bias"])
    norm = lambda x, name: F.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], eps=1e-5)
    heads = lambda x: x.view(BATCH, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)
    x = w["tok.weight"][tokens] + w["pos.weight"]
    for i in range(LAYERS):
        b = f"blocks.{i}."
        h = norm(x, b + "norm1")
        a = F.scaled_dot_product_attention(*(heads(linear(h, f"{b}self_attn.{n}_proj")) for n in "qkv"), is_causal=True)
        x = x + linear(a.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH), b + "self_attn.out_proj")
        x = x + linear(F.gelu(linear(norm(x, b + "norm2"), b + "linear1")), b + "linear2")
    return F.linear(norm(x, "norm"), w["head.weight"])


def gpt():
    torch.manual_seed(3)
    text = TEXT.read_text()
    alphabet = sorted(set(text))
    codes = torch.tensor([alphabet.index(ch) for ch in text])
    starts = torch.randint(len(codes) - CONTEXT - 1, (STEPS, BATCH))
    windows = torch.stack([torch.stack([codes[s:s + CONTEXT + 1] for s in row]) for row in starts])
    weights = gpt_weights(len(alphabet))

    def train(dtype):
        w = {name: value.to(dtype).clone().requires_grad_() for name, value in weights.items()}
        optimizer = torch.optim.AdamW(w.values(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
        losses = []
        for step in range(STEPS):
            tokens, targets = windows[step, :, :-1], windows[step, :, 1:]
            loss = F.cross_entropy(gpt_logits(w, tokens).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return np.array(losses), w

    losses, trained = train(torch.float32)
    exact, _ = train(torch.float64)
    print("gpt: loss", losses[0], "->", losses[-1], "; float32 against float64:", np.max(np.abs(losses / exact - 1)))
    out = {f"start.{name}": value for name, value in weights.items()}
    out["windows"] = windows.to(torch.int32)
    out["losses"] = losses
    out["losses_float64"] = exact
    out["end.head.weight"] = trained["head.weight"]
    save("gpt.safetensors", out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    DATA.mkdir(exist_ok=True)
    promotion()
    dtypes()
    ops()
    functions()
    images()
    optimizers()
    gpt()
