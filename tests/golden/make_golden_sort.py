#!/usr/bin/env python3
"""Makes data/sort.safetensors: orders of PyTorch, for every dtype; make_golden.py says how to run it."""
import torch

from make_golden import DTYPES, save

NAMES = ["float32", "float64", "int32", "int64", "bool", "bfloat16", "float16", "int8", "int16", "uint8"]


def rows(dtype, *shape):
    """Few values, so that many are equal; of floats some that order has rules for."""
    if dtype == torch.bool:
        return torch.randint(2, shape).bool()
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        x = torch.randint(max(-6, info.min), 7, shape).to(dtype)
        x.view(-1)[::11] = info.max
        x.view(-1)[5::13] = info.min
        return x
    x = (torch.randint(-6, 7, shape) / 4).to(dtype)
    for start, step, value in ((0, 11, float("nan")), (3, 17, float("inf")), (4, 19, float("-inf")), (1, 7, 0.0), (2, 7, -0.0)):
        x.view(-1)[start::step] = value
    return x


def main():
    torch.manual_seed(11)
    tensors = {}
    for name, dtype in zip(NAMES, DTYPES):
        x = rows(dtype, 5, 60)
        tensors[f"{name}.x"] = x
        for direction, descending in (("up", False), ("down", True)):
            for dim in (0, 1):
                tensors[f"{name}.{direction}{dim}"] = torch.argsort(x, dim=dim, descending=descending, stable=True)
        if dtype == torch.bool:
            continue
        tensors[f"{name}.kth"] = x.kthvalue(3, 1).values
        tensors[f"{name}.median"] = x.median(1).values
        tensors[f"{name}.largest"] = x.topk(4, 1).values
        tensors[f"{name}.smallest"] = x.topk(4, 0, largest=False).values
    # The derivative of values goes to where they come from.
    x = torch.randn(3, 8, requires_grad=True)
    weight = torch.randn(3, 8)
    (x.sort(1, descending=True).values * weight).sum().backward()
    tensors |= {"gradient.x": x, "gradient.weight": weight, "gradient.sort": x.grad.clone()}
    x.grad = None
    (x.topk(3, 1).values * weight[:, :3]).sum().backward()
    tensors["gradient.topk"] = x.grad.clone()
    x.grad = None
    (x.median(1).values * weight[:, 0]).sum().backward()
    tensors["gradient.median"] = x.grad
    save("sort.safetensors", tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
