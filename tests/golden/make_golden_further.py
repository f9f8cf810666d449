#!/usr/bin/env python3
"""Makes data/further.safetensors: scatters that combine, orders, inverse functions, counting, arrangement and products of weft/composites.h, values and
derivatives; make_golden.py says how to run it."""
import torch
import torch.nn.functional as F

from make_golden import Cases, save


def scatters(c):
    places = torch.tensor([[0, 3, 1, 1, 0], [3, 3, 1, 2, 0], [0, 3, 2, 1, 0]])
    # Ties, with x and among the others; a product with one zero, with two, and with a zero of x.
    x = torch.tensor([[1.0, -2.0, 0.5, 3.0, 0.0], [2.0, 1.0, -1.0, 0.0, 1.5], [4.0, 0.25, 2.0, -3.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    s = torch.tensor([[1.0, 2.0, 0.0, 3.0, 2.5], [1.0, 2.0, 0.0, -1.0, 2.5], [1.0, -4.0, 2.0, 0.0, 0.5]])
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for self in (True, False):
            # Where x is left out, PyTorch still counts its ties with the result.
            mine = x if self or reduce in ("sum", "prod", "mean") else x + 0.125
            c.add(f"scatter_{reduce}_{'with' if self else 'without'}", lambda x, s, i: x.scatter_reduce(0, i, s, reduce, include_self=self), x=mine, s=s, i=places)
        c.add(f"scatter_{reduce}_dim1", lambda x, s, i: x.scatter_reduce(1, i, s, reduce), x=torch.randn(3, 4), s=torch.randn(3, 5), i=places)
    row = torch.tensor([2, 0, 2, 1, 2])
    for reduce in ("prod", "mean", "amax", "amin"):
        c.add(f"index_{reduce}", lambda x, s, i: x.index_reduce(1, i, s, reduce), x=torch.randn(2, 4, 3), s=torch.randn(2, 5, 3), i=row)
    # Softmax over the edges of each node, as graph attention has it.
    node = torch.tensor([0, 2, 2, 1, 0, 2, 3])

    def attention(scores, i):
        most = torch.zeros(4).scatter_reduce(0, i, scores, "amax", include_self=False)
        weights = (scores - most[i]).exp()
        return weights / torch.zeros(4).scatter_add(0, i, weights)[i]

    c.add("edge_softmax", attention, scores=torch.randn(7), i=node)


def orders(c):
    ties = torch.tensor([[3.0, -1.0, 3.0, 8.0, -7.0, 8.0], [0.25, 4.0, -4.0, 1.5, -4.0, -0.5]])
    c.add("max_values_1", lambda x: x.max(1).values, x=ties)
    c.add("min_values_0", lambda x: x.min(0, keepdim=True).values, x=ties)
    c.add("max_places_1", lambda x: x.max(1).indices * 1.0 + 0 * x.sum(), x=ties)
    c.add("min_places_1", lambda x: x.min(1).indices * 1.0 + 0 * x.sum(), x=ties)
    c.add("cummax_values_1", lambda x: x.cummax(1).values, x=ties)
    c.add("cummin_values_1", lambda x: x.cummin(1).values, x=ties)
    c.add("cummax_places_1", lambda x: x.cummax(1).indices * 1.0 + 0 * x.sum(), x=ties)
    c.add("cummin_places_1", lambda x: x.cummin(1).indices * 1.0 + 0 * x.sum(), x=ties)
    c.add("cummax_long_0", lambda x: x.cummax(0).values, x=torch.randn(37, 3))
    c.add("logcumsumexp", lambda x: x.logcumsumexp(1), x=20 * torch.randn(2, 11))
    c.add("mode", lambda x: x.mode(1).values, x=torch.tensor([[2.0, 1.0, 2.0, 1.0, 5.0], [3.0, 3.0, 0.0, 3.0, 0.0]]))
    x = torch.randn(3, 7)
    c.add("quantile_dim", lambda x: x.quantile(0.37, 1), x=x)
    c.add("quantile_keep", lambda x: x.quantile(0.8, 0, keepdim=True), x=x)
    c.add("quantile_all", lambda x: x.quantile(0.5), x=x)
    c.add("quantile_list", lambda x: x.quantile(torch.tensor([0.0, 0.25, 0.9, 1.0]), 1), x=x)


def elementwise(c):
    grid = torch.tensor([-1e20, -7.5, -1.0, -0.3, -1e-6, 1e-6, 0.2, 1.0, 3.0, 1e20])
    y, x = torch.meshgrid(grid[1:-1], grid[1:-1], indexing="ij")
    c.add("atan2", torch.atan2, y=y, x=x)
    c.add("atan", torch.atan, x=grid)
    c.add("asinh", torch.asinh, x=torch.tensor([-1e20, -9000.0, -30.0, -0.5, -1e-6, 0.0, 1e-6, 0.7, 5.0, 8000.0, 8200.0, 1e30]))
    # In float64: the derivatives that PyTorch computes in float32 have three digits near the ends.
    c.add("acosh", torch.acosh, x=torch.tensor([1.0001, 1.5, 3.0, 200.0, 2e8, 3e8, 1e150], dtype=torch.float64))
    unit = torch.tensor([-0.9999, -0.7, -0.2, -1e-6, 1e-6, 0.4, 0.8, 0.9999], dtype=torch.float64)
    for name in ("asin", "acos", "atanh"):
        c.add(name, getattr(torch, name), x=unit)
    c.add("exp2", torch.exp2, x=torch.tensor([-20.0, -1.5, 0.0, 0.3, 9.0]))
    c.add("logit", torch.logit, x=torch.tensor([0.001, 0.3, 0.5, 0.9]))
    c.add("logit_eps", lambda x: torch.logit(x, 0.1), x=torch.tensor([0.001, 0.3, 0.5, 0.99]))
    c.add("rad2deg", torch.rad2deg, x=grid[1:-1])
    c.add("deg2rad", torch.deg2rad, x=grid[1:-1])
    c.add("frac", torch.frac, x=torch.tensor([-2.75, -0.5, 0.5, 3.25]))
    c.add("hypot", torch.hypot, y=torch.tensor([3.0, 1e30, -1e-25, 0.0, 5.0]), x=torch.tensor([-4.0, 1e30, 1e-25, 2.0, 1e-9]))
    c.add("fmod", torch.fmod, x=torch.tensor([5.5, -5.5, 5.5, -5.5, 1.0]), y=torch.tensor([2.0, 2.0, -2.0, -2.0, 3.0]))
    c.add("copysign", torch.copysign, x=torch.tensor([1.5, -2.0, 3.0, -4.0]), y=torch.tensor([-0.0, 0.0, -1.0, 7.0]))
    c.add("xlogy", torch.xlogy, x=torch.tensor([0.0, 2.0, -1.0, 0.0]), y=torch.tensor([0.5, 3.0, 0.1, 4.0]))
    abc = dict(x=torch.randn(3, 4), a=torch.randn(3, 4), b=torch.rand(4) + 0.5)
    c.add("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=0.3), **abc)
    c.add("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b, value=-2), **abc)
    c.add("nan_to_num", lambda x: torch.nan_to_num(x, 2.0, 7.0), x=torch.tensor([1.0, float("nan"), float("inf"), -3.0]))


def along_dims(c):
    x = torch.randn(2, 5, 3)
    x[0, 1] = 0
    c.add("count_nonzero", lambda x: x.count_nonzero(1) + 0 * x.sum(1), x=x)
    holes = torch.randn(3, 4)
    holes[0, 1] = holes[2, 2] = float("nan")
    c.add("nansum", lambda x: x.nansum(1), x=holes)
    c.add("nanmean", lambda x: x.nanmean(0, keepdim=True), x=holes)
    for name, p in (("0", 0), ("1", 1), ("2", 2), ("3", 3), ("half", 0.5), ("inf", float("inf")), ("least", float("-inf"))):
        c.add(f"norm_{name}", lambda x: torch.linalg.vector_norm(x, p, 2) + 0 * x.sum(2), x=torch.randn(2, 3, 4))
    c.add("norm_zero", lambda x: torch.linalg.vector_norm(x, 2, 1), x=torch.tensor([[0.0, 0.0], [3.0, -4.0]]))
    c.add("diff", lambda x: x.diff(), x=x)
    c.add("diff_twice", lambda x: x.diff(2, 1), x=x)
    for p in (1, 2, 3):
        c.add(f"pairwise_{p}", lambda x, y: F.pairwise_distance(x, y, p), x=torch.randn(4, 5), y=torch.randn(4, 5))


def counting(c):
    i = torch.tensor([3, 0, 3, 1, 6, 3])
    c.add("bincount_weights", lambda w, i: i.bincount(w.detach()) + 0 * w.sum(), w=torch.rand(6), i=i)
    c.add("histc", lambda x: x.detach().histc(5, -1, 2) + 0 * x.sum(), x=torch.randn(40))
    c.add("histc_range", lambda x: x.detach().histc(4) + 0 * x.sum(), x=torch.randn(40))
    edges = torch.tensor([-1.0, 0.0, 0.0, 0.5, 2.0])
    values = torch.tensor([[-2.0, -1.0, 0.0], [0.25, 2.0, 9.0]])
    for name, right in (("left", False), ("right", True)):
        c.add(f"bucketize_{name}", lambda x, e: torch.bucketize(x.detach(), e.detach(), right=right) * 1.0 + 0 * x.sum(), x=values, e=edges)
        rows = torch.stack((edges, edges * 3))
        c.add(f"searchsorted_{name}", lambda r, x: torch.searchsorted(r.detach(), x.detach(), right=right) * 1.0 + 0 * x.sum(), r=rows, x=values)


def arrangement(c):
    x = torch.randn(2, 3, 4)
    c.add("diag_embed_last", lambda x: x.diag_embed(), x=x)
    c.add("diag_embed_dims", lambda x: x.diag_embed(-1, 0, 2), x=x)
    for k in range(-1, 4):
        c.add(f"rot90_{k % 4}{'_back' if k < 0 else ''}", lambda x: x.rot90(k, (1, 2)), x=x)
    c.add("unflatten", lambda x: x.unflatten(2, (2, -1)), x=x)
    c.add("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), x=x, i=torch.tensor([[[2], [0]]]))
    c.add("index_fill", lambda x, i: x.index_fill(1, i, 0.5), x=x, i=torch.tensor([2, 0]))


def products(c):
    c.add("addmm", lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=-2), x=torch.randn(4), a=torch.randn(3, 2), b=torch.randn(2, 4))
    c.add("cross_last", lambda x, y: torch.linalg.cross(x, y), x=torch.randn(4, 3), y=torch.randn(4, 3))
    c.add("cross_first", lambda x, y: torch.linalg.cross(x, y, dim=0), x=torch.randn(3, 2), y=torch.randn(3, 1))
    c.add("kron", torch.kron, x=torch.randn(2, 3), y=torch.randn(2, 2, 2))
    c.add("tensordot_two", lambda x, y: torch.tensordot(x, y, 2), x=torch.randn(2, 3, 4), y=torch.randn(3, 4, 5))
    c.add("tensordot_dims", lambda x, y: torch.tensordot(x, y, ([0, 2], [1, 0])), x=torch.randn(2, 3, 4), y=torch.randn(4, 2, 5))


def images(c):
    geometry = dict(kernel_size=(2, 3), stride=(2, 1), padding=(1, 0), dilation=(1, 2))
    c.add("unfold", lambda x: F.unfold(x, **geometry), x=torch.randn(2, 3, 5, 7))
    c.add("fold", lambda x: F.fold(x, (5, 7), **geometry), x=torch.randn(2, 12, 9))
    c.add("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), x=torch.randn(2, 8, 2, 3))
    c.add("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), x=torch.randn(2, 2, 4, 6))
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border"):
            for corners in (False, True):
                name = f"grid_sample_{mode}_{padding}{'_corners' if corners else ''}"
                c.add(name, lambda x, g: F.grid_sample(x, g, mode, padding, corners), x=torch.randn(2, 3, 4, 5), g=2.6 * torch.rand(2, 3, 4, 2) - 1.3)
    for corners in (False, True):
        c.add(f"affine_grid{'_corners' if corners else ''}", lambda t: F.affine_grid(t, (2, 3, 4, 5), corners), t=torch.randn(2, 2, 3))


def activations(c):
    x = torch.tensor([[-7.0, -1.5, -0.7, -0.2], [0.0, 0.3, 0.9, 7.0]])
    c.add("hardtanh", lambda x: F.hardtanh(x, -1.5, 0.5), x=x)
    c.add("relu6", F.relu6, x=x)
    c.add("softsign", F.softsign, x=x)
    c.add("tanhshrink", F.tanhshrink, x=x)
    c.add("hardshrink", lambda x: F.hardshrink(x, 0.7), x=x)
    c.add("softshrink", lambda x: F.softshrink(x, 0.7), x=x)
    c.add("celu", lambda x: F.celu(x, 0.7), x=x)
    c.add("prelu_one", F.prelu, x=x, w=torch.tensor([0.3]))
    c.add("prelu_channels", F.prelu, x=torch.randn(2, 3, 4), w=torch.tensor([0.3, -0.1, 2.0]))
    c.add("glu", lambda x: F.glu(x, 1), x=torch.randn(2, 6, 3))


def main():
    torch.manual_seed(12)
    c = Cases()
    for part in (scatters, orders, elementwise, along_dims, counting, arrangement, products, images, activations):
        part(c)
    save("further.safetensors", c.tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
