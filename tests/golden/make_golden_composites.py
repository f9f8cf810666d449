#!/usr/bin/env python3
"""Makes data/composites.safetensors: the functions of weft/composites.h, values and derivatives; make_golden.py says how to run it."""
import torch
import torch.nn.functional as F

from make_golden import Cases, save

EQUATIONS = ["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "ij,ij->", "ij,ij->i", "i,j->ij", "bhqd,bhkd->bhqk", "...ij,...jk->...ik", "bi,ij,bj->b", "ijk,kl->jl", "ij,k->ki", "i...,i->..."]
SHAPES = {"i": 3, "j": 4, "k": 2, "l": 3, "b": 2, "h": 2, "q": 3, "d": 4}


def shape(part, dots):
    sizes = []
    for letter in part.replace("...", "."):
        sizes += dots if letter == "." else [SHAPES[letter]]
    return sizes


def main():
    torch.manual_seed(9)
    c = Cases()
    line = torch.tensor([-30.0, -6.0, -2.5, -1.25, -1e-3, 1e-3, 0.5, 1.0, 3.0, 6.0, 30.0])
    for name in ("reciprocal", "tan", "sinh", "cosh", "trunc"):
        c.add(f"{name}", getattr(torch, name), x=line)
    for name in ("log2", "log10"):
        c.add(f"{name}", getattr(torch, name), x=line.abs())
    c.add("lerp", torch.lerp, x=torch.randn(3, 4), y=torch.randn(3, 4), w=torch.rand(4))
    c.add("logaddexp", torch.logaddexp, x=torch.tensor([1.0, -200.0, 300.0, 5.0]), y=torch.tensor([2.0, -201.0, 100.0, 4.0]))
    x = torch.randn(2, 5, 3)
    c.add("logsumexp_all", lambda x: x.logsumexp((0, 1, 2)), x=x)
    c.add("logsumexp_large", lambda x: x.logsumexp(1, True), x=100 * x)
    c.add("std_all", lambda x: x.std(), x=x)
    c.add("std_dims", lambda x: x.std((0, 2), correction=0), x=x)
    c.add("cumprod", lambda x: x.cumprod(1), x=torch.randn(2, 6))
    c.add("cumprod_zero", lambda x: x.cumprod(0), x=torch.tensor([2.0, -1.0, 0.0, 3.0, 0.0]))
    c.add("normalize", lambda x: F.normalize(x), x=x)
    c.add("cosine", lambda x, y: F.cosine_similarity(x, y, 1), x=x, y=torch.randn(2, 5, 3))
    rows = torch.randn(2, 4, 3)
    c.add("cdist", lambda x, y: torch.cdist(x, y), x=rows, y=torch.randn(2, 5, 3))
    ties = torch.tensor([[3.0, -1.0, 2.5, 8.0, -7.0, 0.5], [0.25, 4.0, -4.0, 1.5, 9.0, -0.5]])
    c.add("sort_up", lambda x: x.sort(1).values, x=ties)
    c.add("sort_down", lambda x: x.sort(0, descending=True).values, x=ties)
    c.add("topk_large", lambda x: x.topk(3, 1).values, x=ties)
    c.add("topk_small", lambda x: x.topk(2, 1, largest=False).values, x=ties)
    c.add("topk_blocks", lambda x: x.topk(5, 1).values, x=torch.randn(2, 700))
    c.add("roll_flat", lambda x: x.roll(4), x=x)
    c.add("roll_dims", lambda x: x.roll((-1, 7), (0, 1)), x=x)
    c.add("unbind", lambda x: x.unbind(1)[2] * x.unbind(1)[0], x=x)
    c.add("movedim", lambda x: x.movedim(0, 2), x=x)
    c.add("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij")[0] * torch.meshgrid(x, y, indexing="ij")[1] ** 2, x=torch.randn(3), y=torch.randn(4))
    for name, offset in (("0", 0), ("above", 2), ("below", -1)):
        c.add(f"diagonal_{name}", lambda x: x.diagonal(offset, 1, 2), x=torch.randn(2, 4, 5))
        c.add(f"diag_{name}", lambda x: x.diag(offset), x=torch.randn(3))
    c.add("trace", torch.trace, x=torch.randn(3, 4))
    places = torch.tensor([[2, 0, 1], [0, 2, 3]])
    c.add("scatter_0", lambda x, s, i: x.scatter(0, i, s), x=torch.randn(4, 3), s=torch.randn(2, 3), i=places)
    c.add("scatter_1", lambda x, s, i: x.scatter(1, i, s), x=torch.randn(2, 5), s=torch.randn(2, 3), i=places)
    c.add("index_add", lambda x, s, i: x.index_add(1, i, s), x=torch.randn(2, 3, 2), s=torch.randn(2, 4, 2), i=torch.tensor([0, 2, 2, 1]))
    c.add("dot", torch.dot, x=torch.randn(5), y=torch.randn(5))
    c.add("outer", torch.outer, x=torch.randn(3), y=torch.randn(4))
    for number, equation in enumerate(EQUATIONS):
        parts = equation.split("->")[0].split(",")
        operands = {f"x{i}": torch.randn(shape(part, [2, 3] if i == 0 else [1, 3] if part.startswith("...") else [])) for i, part in enumerate(parts)}
        c.add(f"einsum_{number:02}", lambda *x: torch.einsum(equation, *x), **operands)
    save("composites.safetensors", c.tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
