#!/usr/bin/env python3
"""Makes data/special.safetensors: elementwise functions of special numbers (zeros of both signs, denormals, the ends of ranges, infinities, NaN),
and the derivatives of roots, norms and products at 0; make_golden.py says how to run it."""
import math

import mpmath  # comes with torch
import torch
import torch.nn.functional as F

from make_golden import save

INF, NAN = float("inf"), float("nan")


def remainder(x, y, floored):
    """C's fmod and PyTorch's definition of remainder by it: PyTorch's vectors give NaN where the quotient overflows."""

    def one(a, b):
        left = NAN if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0 else math.fmod(a, b)
        return left + b if floored and left != 0 and (left < 0) != (b < 0) else left

    return torch.tensor([one(a, b) for a, b in zip(x.flatten().tolist(), y.flatten().tolist())], dtype=torch.float64).to(x.dtype).reshape(x.shape)


UNARY = {
    "abs": torch.abs, "neg": torch.neg, "sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc,
    "frac": torch.frac, "reciprocal": torch.reciprocal, "square": torch.square, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp,
    "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
    "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "erf": torch.erf, "sigmoid": torch.sigmoid,
    "logit": torch.logit, "rad2deg": torch.rad2deg, "deg2rad": torch.deg2rad, "relu": F.relu, "relu6": F.relu6, "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "hardshrink": F.hardshrink, "softshrink": F.softshrink, "softsign": F.softsign,
    "tanhshrink": F.tanhshrink, "elu": F.elu, "selu": F.selu, "celu": F.celu, "leaky_relu": F.leaky_relu, "silu": F.silu, "mish": F.mish,
    "softplus": F.softplus, "log_sigmoid": F.logsigmoid, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
# Where PyTorch's own formulas overflow, cancel or stop at a threshold: the functions themselves, of finite numbers.
EXACT = {
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "mish": lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), "hardswish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)), "log_sigmoid": lambda x: -mpmath.log1p(mpmath.exp(-x)),
    "gelu": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2 if abs(x) < 1e4 else max(x, mpmath.mpf(0)),
    "gelu_tanh": lambda x: x / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))),
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "remainder": lambda x, y: remainder(x, y, True),
    "fmod": lambda x, y: remainder(x, y, False),
    "floor_divide": torch.floor_divide, "minimum": torch.minimum, "maximum": torch.maximum, "atan2": torch.atan2, "hypot": torch.hypot,
    "copysign": torch.copysign, "xlogy": torch.xlogy, "logaddexp": torch.logaddexp,
}
# Beside zeros, infinities and NaN: of each dtype the smallest and the largest numbers, and the ends of exp and of the hyperbolic functions.
ENDS = {
    torch.float32: [1e-45, 3e-42, 2.0**-126, 1e-30, 1e-20, 88.5, 88.9, 89.3, 89.5, 103.5, 4194304.5, 8388609.0, 1e19, 1.8e38, 3.4028234663852886e38],
    torch.float64: [5e-324, 1e-310, 2.0**-1022, 1e-200, 1e-100, 709.5, 710.2, 710.4, 710.6, 745.0, 2251799813685248.5, 1e100, 1e155, 1.7e308,
                    1.7976931348623157e308],
}
COMMON = [0.0, 1e-10, 1e-4, 0.25, 0.5, 0.99, 1.0, 1.01, 1.5, 2.0, 2.5, 3.0, 3.5, 7.75, 8.0, 10.0, 25.0, 100.0, INF]


def both_signs(numbers, dtype):
    x = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    return torch.cat([x, -x, torch.tensor([NAN], dtype=dtype)])


def exact(f, x):
    """f of a number, to far more digits than a float64 has."""
    mpmath.mp.prec = 200
    y = f(mpmath.mpf(x))
    return float(y) if abs(y) < 2 ** mpmath.mpf(1024) else INF * float(mpmath.sign(y))


def special(tensors):
    for dtype in (torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        x = both_signs(COMMON + ENDS[dtype], dtype).requires_grad_()
        tensors[f"{name}.x"] = x
        for function, f in UNARY.items():
            y = f(x)
            slope = torch.autograd.grad(y.sum(), x)[0]
            if function in EXACT:
                # The sign of a zero is PyTorch's, and what it has at infinities, but for gelu's NaN there.
                values = [exact(EXACT[function], number) or math.copysign(0, value) if abs(number) < INF else INF if number > 0 and function == "gelu" else value
                          for number, value in zip(x.tolist(), y.tolist())]
                y = torch.tensor(values, dtype=torch.float64).to(dtype)
            tensors[f"{name}.{function}"] = y
            tensors[f"{name}_slope.{function}"] = slope
        few = both_signs([0.0, ENDS[dtype][1], 1e-3, 0.5, 1.0, 2.0, 2.5, 3.0, 1e4, ENDS[dtype][-2], INF], dtype)
        a, b = few[:, None].expand(-1, len(few)), few[None, :].expand(len(few), -1)
        tensors[f"{name}.few"] = few
        for function, f in BINARY.items():
            tensors[f"{name}.{function}"] = f(a, b)


def at_zero(tensors):
    """Sums with weights 1, 2, ... of what a function gives; their derivative; and that of the derivative's, with weights again."""

    def add(name, f, *values):
        xs = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]
        y = f(*xs)
        weights = torch.arange(1, y.numel() + 1, dtype=torch.float64).reshape(y.shape)
        first = torch.autograd.grad((y * weights).sum(), xs, create_graph=True)
        again = sum((g * torch.arange(1, g.numel() + 1, dtype=torch.float64).reshape(g.shape)).sum() for g in first)
        second = torch.autograd.grad(again, xs, materialize_grads=True) if again.requires_grad else [torch.zeros_like(x) for x in xs]
        tensors[f"{name}.out"] = y
        for i, x in enumerate(xs):
            tensors[f"{name}.x{i}"] = x
            tensors[f"{name}.first{i}"] = first[i]
            tensors[f"{name}.second{i}"] = torch.zeros(x.shape, dtype=x.dtype).copy_(second[i])  # which may be symbolically 0

    rows, points = [[0.0, 0.0], [3.0, -4.0], [0.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]
    add("std_constant", lambda x: x.std(), [2.0, 2.0, 2.0])
    add("std_rows", lambda x: x.std(1), [[1.0, 1.0], [1.0, 3.0]])
    add("var_constant", lambda x: x.var(), [2.0, 2.0, 2.0])
    add("norm", lambda x: x.norm(2, 1), rows)
    for name, p in (("half", 0.5), ("1", 1), ("3", 3), ("inf", INF)):
        add(f"norm_{name}", lambda x: torch.linalg.vector_norm(x, p, 1), rows)
    add("cdist", torch.cdist, points, points[:1])
    add("normalize", lambda x: F.normalize(x, dim=1), rows)
    add("cosine", lambda x, y: F.cosine_similarity(x, y, dim=1), [[0.0, 0.0], [1.0, 2.0]], [[1.0, 2.0], [0.0, 0.0]])
    add("hypot", torch.hypot, [0.0, 3.0], [0.0, 0.0])
    add("atan2", torch.atan2, [0.0, 1.0], [0.0, 0.0])
    add("logaddexp", torch.logaddexp, [1.0, 2.0], [1.0, -1.0])
    add("prod_all", lambda x: x.prod(), [2.0, 0.0, 3.0])
    add("prod_rows", lambda x: x.prod(1), [[2.0, 0.0, 3.0, 4.0], [0.0, 0.0, 5.0, 2.0], [1.0, 2.0, 4.0, 3.0], [0.0, 0.0, 0.0, 7.0]])
    add("prod_columns", lambda x: x.prod(0), [[2.0, 0.0], [0.0, 0.0], [3.0, 5.0]])
    add("cumprod", lambda x: x.cumprod(0), [2.0, 0.0, 3.0, 4.0])


def main():
    tensors = {}
    special(tensors)
    at_zero(tensors)
    save("special.safetensors", tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
