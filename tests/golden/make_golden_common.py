#!/usr/bin/env python3
"""Makes data/common.safetensors: what programs call under PyTorch's names and is made of other functions, values and derivatives;
make_golden.py says how to run it."""
import torch

from make_golden import Cases, save


def extremes(c):
    ties = torch.tensor([[[3.0, -1.0, 3.0], [8.0, -7.0, 8.0]], [[0.25, 4.0, -4.0], [8.0, -4.0, -0.5]]])
    for name in ("amax", "amin"):
        c.add(f"{name}_all", getattr(torch, name), x=ties)
        c.add(f"{name}_last", lambda x: getattr(torch, name)(x, 2), x=ties)
        c.add(f"{name}_two", lambda x: getattr(torch, name)(x, (0, -1), keepdim=True), x=ties)
    x = torch.tensor([[-2.0, 0.5, 1.0], [0.5, 3.0, -0.0]])
    bound = torch.tensor([0.5, 0.5, 1.5])
    for name in ("clamp_min", "clamp_max"):
        c.add(f"{name}_number", lambda x: getattr(torch, name)(x, 0.5), x=x)
        c.add(f"{name}_tensor", getattr(torch, name), x=x, b=bound)


def products(c):
    c.add("mm", torch.mm, x=torch.randn(3, 4), y=torch.randn(4, 2))
    c.add("bmm", torch.bmm, x=torch.randn(2, 3, 4), y=torch.randn(2, 4, 5))
    c.add("mv", torch.mv, x=torch.randn(3, 4), y=torch.randn(4))
    batch = dict(a=torch.randn(2, 3, 4), b=torch.randn(2, 4, 5))
    c.add("baddbmm_plain", torch.baddbmm, x=torch.randn(2, 3, 5), **batch)
    c.add("baddbmm_scaled", lambda x, a, b: torch.baddbmm(x, a, b, beta=0.5, alpha=-2), x=torch.randn(3, 1), **batch)
    c.add("baddbmm_without", lambda x, a, b: torch.baddbmm(x, a, b, beta=0), x=torch.full((5,), float("nan")), **batch)
    c.add("add_alpha", lambda x, y: torch.add(x, y, alpha=-0.3), x=torch.randn(2, 3), y=torch.randn(3))
    c.add("sub_alpha", lambda x, y: torch.sub(x, y, alpha=3), x=torch.randn(2, 3), y=torch.randn(2, 1))
    # As many as vectors take: what is left over PyTorch rounds twice.
    half = dict(x=torch.randn(256).to(torch.bfloat16), y=torch.randn(256).to(torch.bfloat16))
    c.add("add_half", lambda x, y: torch.add(x, y, alpha=0.375), **half)


def parts(c):
    x = torch.randn(3, 4)
    mask = torch.tensor([[True, False, True, False], [False, False, True, True], [False, True, False, False]])
    c.add("masked_select", torch.masked_select, x=x, m=mask)
    c.add("masked_select_row", torch.masked_select, x=x, m=mask[0])
    c.add("masked_select_wide", torch.masked_select, x=torch.randn(4), m=mask)
    x = torch.randn(2, 7)
    # Each part by its place, so that their order and sizes show.
    joined = lambda parts, dim: torch.cat([(i + 1) * part for i, part in enumerate(parts)], dim)
    for sections in (1, 3, 9):
        c.add(f"tensor_split_{sections}", lambda x: joined(x.tensor_split(sections, 1), 1), x=x)
    c.add("tensor_split_at", lambda x: joined(x.tensor_split((1, 3, 3, -2, 9), 1), 1), x=x)
    c.add("tensor_split_back", lambda x: joined(x.tensor_split((5, 2), -1), 1), x=x)
    for dim, size, step in ((1, 3, 2), (1, 2, 5), (1, 7, 1), (0, 1, 1), (-1, 0, 3)):
        c.add(f"unfold_{dim % 2}_{size}_{step}", lambda x: x.unfold(dim, size, step), x=x)
    c.add("unfold_twice", lambda x: x.unfold(1, 3, 1).unfold(2, 2, 2), x=torch.randn(2, 4, 5))
    c.add("unfold_number", lambda x: x.unfold(0, 1, 1), x=torch.tensor(2.0))
    for name in ("tril_indices", "triu_indices"):
        for rows, columns, offset in ((4, 4, 0), (3, 5, -1), (5, 3, 2), (2, 3, 5), (4, 2, -2), (1, 1, -1)):
            places = getattr(torch, name)(rows, columns, offset)
            c.add(f"{name}_{rows}_{columns}_{offset % 10}", lambda x: x * places, x=torch.tensor(1.0))


def main():
    torch.manual_seed(13)
    c = Cases()
    for part in (extremes, products, parts):
        part(c)
    save("common.safetensors", c.tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
