#!/usr/bin/env python3
"""Makes data/programs.safetensors, small training runs of many kinds, for tests/programs/networks_test.cpp; make_golden.py says how to run it.

Of each run: its parameters before (start.*, named as the modules of weft::nn name them), what it reads, and the loss of each step.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from make_golden import save

OUT = {}


def note(run, model=None, **tensors):
    if model is not None:
        OUT.update({f"{run}.start.{name}": value.detach().clone() for name, value in model.state_dict().items()})
    OUT.update({f"{run}.{name}": value.detach().clone() for name, value in tensors.items()})


def train(run, optimizer, steps, loss_of, after=lambda: None, clip=None):
    losses = []
    for step in range(steps):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
        optimizer.step()
        after()
        losses.append(loss.item())
    OUT[f"{run}.losses"] = torch.tensor(losses, dtype=torch.float64)
    print(run, losses[0], "->", losses[-1])


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.mean, self.spread = nn.Linear(64, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.down, self.out = nn.Linear(4, 32), nn.Linear(32, 64)


def vae():
    model, steps = Vae(), 20
    x, noise = (torch.rand(steps, 16, 64) > 0.7).float(), torch.randn(steps, 16, 4)
    note("vae", model, x=x, noise=noise)

    def loss_of(step):
        h = F.silu(model.up(x[step]))
        mean, spread = model.mean(h), model.spread(h)
        z = mean + noise[step] * torch.exp(0.5 * spread)
        logits = model.out(F.silu(model.down(z)))
        divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum()
        return (F.binary_cross_entropy_with_logits(logits, x[step], reduction="sum") + divergence) / 16

    train("vae", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


class CharLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(12, 8), nn.LSTM(8, 16, 2, batch_first=True), nn.Linear(16, 12)


def char_lstm():
    """Truncated back-propagation: the state goes on from batch to batch, its history does not."""
    model, steps = CharLstm(), 15
    ids = torch.randint(12, (steps, 4, 11))
    note("char_lstm", model, ids=ids)
    state = None

    def loss_of(step):
        nonlocal state
        y, state = model.lstm(model.embed(ids[step, :, :-1]), state)
        state = tuple(s.detach() for s in state)
        return F.cross_entropy(model.head(y).flatten(0, 1), ids[step, :, 1:].flatten(), label_smoothing=0.1)

    train("char_lstm", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of, clip=1.0)
    note("char_lstm", hidden=state[0], cell=state[1])


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.message, self.update, self.head = nn.Linear(12, 6), nn.Linear(12, 6), nn.Linear(6, 3)


def graph():
    """Messages along edges, summed where they arrive; readout by the sum over each graph's nodes and its largest feature."""
    model, steps, nodes, edges = GraphNet(), 15, 20, 60
    x, source, target = torch.randn(nodes, 6), torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,))
    of_graph, labels = torch.arange(nodes) // 5, torch.tensor([0, 2, 1, 2])
    note("graph", model, x=x, source=source, target=target, of_graph=of_graph, labels=labels)

    def loss_of(step):
        h = x
        for _ in range(2):
            messages = F.relu(model.message(torch.cat([h[source], h[target]], 1)))
            arrived = torch.zeros(nodes, 6).scatter_add(0, target[:, None].expand(-1, 6), messages)
            degree = torch.zeros(nodes).scatter_add(0, target, torch.ones(edges)).clamp(min=1)
            h = torch.tanh(model.update(torch.cat([h, arrived / degree[:, None]], 1)))
        pooled = torch.zeros(4, 6).index_add(0, of_graph, h)
        return F.cross_entropy(model.head(pooled), labels)

    train("graph", torch.optim.AdamW(model.parameters(), lr=2e-2), steps, loss_of)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.middle, self.down = nn.Linear(2 + 8, 32), nn.Linear(32, 32), nn.Linear(32, 2)

    def forward(self, x, t):
        angles = t[:, None].float() * torch.exp(torch.arange(4) * (-math.log(100.0) / 4))
        h = F.gelu(self.up(torch.cat([x, angles.sin(), angles.cos()], 1)))
        return self.down(h + F.gelu(self.middle(h)))


def diffusion():
    """DDPM's loss (Ho et al. 2020), an average of the parameters, and DDIM's samples (Song et al. 2021) made with it."""
    model, steps, levels = Denoiser(), 15, 20
    kept = torch.cumprod(1 - torch.linspace(1e-2, 0.3, levels), 0)
    x, t, noise = torch.randn(steps, 16, 2) * torch.tensor([1.0, 0.1]), torch.randint(levels, (steps, 16)), torch.randn(steps, 16, 2)
    begin = torch.randn(16, 2)
    note("diffusion", model, x=x, t=t, noise=noise, kept=kept, begin=begin)
    averages = [p.detach().clone() for p in model.parameters()]

    def loss_of(step):
        share = kept[t[step]][:, None]
        return F.mse_loss(model(share.sqrt() * x[step] + (1 - share).sqrt() * noise[step], t[step]), noise[step])

    @torch.no_grad()
    def after():
        for a, p in zip(averages, model.parameters()):
            a.lerp_(p, 1 - 0.9)

    train("diffusion", torch.optim.AdamW(model.parameters(), lr=1e-2), steps, loss_of, after)
    with torch.no_grad():
        for p, a in zip(model.parameters(), averages):
            p.copy_(a)
        sample = begin
        for level in reversed(range(levels)):
            predicted = model(sample, torch.full((16,), level))
            clean = (sample - (1 - kept[level]).sqrt() * predicted) / kept[level].sqrt()
            before = kept[level - 1] if level else torch.tensor(1.0)
            sample = before.sqrt() * clean + (1 - before).sqrt() * predicted
    note("diffusion", sample=sample)


class Mlp(nn.Module):
    def __init__(self, inputs, width, outputs):
        super().__init__()
        self.up, self.middle, self.down = nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, outputs)

    def forward(self, x):
        return self.down(torch.tanh(self.middle(torch.tanh(self.up(x)))))


def critic():
    """A critic whose gradient is kept near 1 (Gulrajani et al. 2017): the loss has a derivative in it."""
    model, steps = Mlp(3, 16, 1), 12
    real, fake, share = torch.randn(steps, 8, 3) + 1, torch.randn(steps, 8, 3), torch.rand(steps, 8, 1)
    note("critic", model, real=real, fake=fake, share=share)

    def loss_of(step):
        between = (share[step] * real[step] + (1 - share[step]) * fake[step]).requires_grad_()
        (gradient,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
        penalty = (gradient.square().sum(1).sqrt() - 1).square().mean()
        return model(fake[step]).mean() - model(real[step]).mean() + 10 * penalty

    train("critic", torch.optim.RMSprop(model.parameters(), lr=1e-2), steps, loss_of)


def physics():
    """u'' + u = 0, u(0) = 0, u'(0) = 1, by a network whose second derivative is in the loss (Raissi et al. 2019)."""
    model, steps = Mlp(1, 12, 1), 12
    at = torch.linspace(0, 3, 20)[:, None]
    note("physics", model, at=at)

    def loss_of(step):
        x, zero = at.clone().requires_grad_(), torch.zeros(1, 1, requires_grad=True)
        u = model(x)
        (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        begin = model(zero)
        (slope,) = torch.autograd.grad(begin.sum(), zero, create_graph=True)
        return (second + u).square().mean() + begin.square().sum() + (slope - 1).square().sum()

    train("physics", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


def meta():
    """MAML (Finn et al. 2017): the loss after three steps of descent, differentiated through them."""
    model, steps = Mlp(1, 10, 1), 10
    x, phase = torch.rand(steps, 4, 2, 6, 1) * 6 - 3, torch.rand(steps, 4, 1, 1, 1) * 3
    y = torch.sin(x + phase)
    note("meta", model, x=x, y=y)

    def run(weights, x):
        a, b, c, d, e, f = weights
        return F.linear(torch.tanh(F.linear(torch.tanh(F.linear(x, a, b)), c, d)), e, f)

    def loss_of(step):
        total = 0
        for task in range(4):
            weights = list(model.parameters())
            for _ in range(3):
                loss = F.mse_loss(run(weights, x[step, task, 0]), y[step, task, 0])
                gradients = torch.autograd.grad(loss, weights, create_graph=True)
                weights = [w - 0.1 * g for w, g in zip(weights, gradients)]
            total = total + F.mse_loss(run(weights, x[step, task, 1]), y[step, task, 1])
        return total / 4

    train("meta", torch.optim.SGD(model.parameters(), lr=5e-2, momentum=0.9), steps, loss_of)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(7)
    for run in (vae, char_lstm, graph, diffusion, critic, physics, meta):
        run()
    save("programs.safetensors", OUT)
