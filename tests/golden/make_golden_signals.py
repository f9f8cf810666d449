#!/usr/bin/env python3
"""Makes data/signals.safetensors: convolutions and pooling of signals, further norms and losses; make_golden.py says how to run it."""
import torch
import torch.nn.functional as F

from make_golden import Cases, save


def main():
    torch.manual_seed(12)
    c = Cases()
    x, w, b = torch.randn(2, 4, 11), torch.randn(6, 2, 3), torch.randn(6)
    c.add("conv1d_plain", lambda x, w: F.conv1d(x, w), x=torch.randn(2, 3, 9), w=torch.randn(5, 3, 4))
    c.add("conv1d_options", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=3, dilation=2, groups=2), x=x, w=w, b=b)
    c.add("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=3, padding=1, output_padding=2, groups=2), x=torch.randn(2, 4, 5),
          w=torch.randn(4, 3, 4), b=b)
    c.add("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), x=x)
    c.add("max_pool1d_ceil", lambda x: F.max_pool1d(x, 2, 2, 0, 2, True), x=x)
    c.add("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), x=x)
    c.add("avg_pool1d_inside", lambda x: F.avg_pool1d(x, 4, 3, 2, True, False), x=x)
    c.add("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 4), x=x)
    c.add("instance_norm", lambda x, w, b: F.instance_norm(x, None, None, w, b), x=torch.randn(2, 3, 4, 5), w=torch.randn(3), b=torch.randn(3))
    c.add("batch_norm1d", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x=torch.randn(4, 3, 5), w=torch.randn(3), b=torch.randn(3))
    c.add("batch_norm1d_rows", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x=torch.randn(6, 3), w=torch.randn(3), b=torch.randn(3))
    c.add("padding", lambda w, i: F.embedding(i, w, padding_idx=2), w=torch.randn(5, 3), i=torch.tensor([[2, 0, 4], [1, 2, 2]]))

    p, q, signs = torch.randn(4, 5), torch.randn(4, 5), torch.tensor([1, -1, -1, 1])
    each = torch.tensor([[1, -1, 1, 1, -1]] * 4)
    for reduction in ("mean", "sum", "none"):
        r = {"reduction": reduction}
        c.add(f"ranking_{reduction}", lambda x, y, t: F.margin_ranking_loss(x, y, t, 0.3, **r), x=p, y=q, t=each)
        c.add(f"cosine_{reduction}", lambda x, y, t: F.cosine_embedding_loss(x, y, t, 0.1, **r), x=p, y=q, t=signs)
        c.add(f"triplet_{reduction}", lambda x, y, z: F.triplet_margin_loss(x, y, z, 2.0, **r), x=p, y=q, z=torch.randn(4, 5))
        c.add(f"hinge_{reduction}", lambda x, t: F.hinge_embedding_loss(x, t, 0.7, **r), x=p, t=each)
        c.add(f"soft_{reduction}", lambda x, t: F.soft_margin_loss(x, t, **r), x=p, t=each)
        c.add(f"multi1_{reduction}", lambda x, t: F.multi_margin_loss(x, t, 1, 0.8, **r), x=p, t=torch.tensor([0, 3, 4, 1]))
        c.add(f"multi2_{reduction}", lambda x, t: F.multi_margin_loss(x, t, 2, **r), x=p, t=torch.tensor([0, 3, 4, 1]))
        c.add(f"bce_{reduction}", lambda x, y: F.binary_cross_entropy(x, y.detach(), **r), x=torch.rand(4, 5), y=torch.rand(4, 5))
        c.add(f"poisson_{reduction}", lambda x, y: F.poisson_nll_loss(x, y.detach(), **r), x=p, y=torch.rand(4, 5))
    c.add("triplet_swap", lambda x, y, z: F.triplet_margin_loss(x, y, z, swap=True), x=p, y=q, z=torch.randn(4, 5))
    c.add("poisson_rate", lambda x, y: F.poisson_nll_loss(x, y.detach(), log_input=False), x=torch.rand(4, 5) + 0.1, y=torch.rand(4, 5))
    c.add("index_copy", lambda x, s, i: x.index_copy(1, i, s), x=torch.randn(2, 4, 2), s=torch.randn(2, 2, 2), i=torch.tensor([3, 1]))

    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    tensors = dict(c.tensors)
    x = torch.randn(2, 3, 8)
    tensors["encoder.x"], tensors["encoder.out"] = x, layer(x)
    for name, parameter in layer.named_parameters():
        tensors["encoder." + name] = parameter
    save("signals.safetensors", tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
