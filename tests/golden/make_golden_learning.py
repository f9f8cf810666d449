#!/usr/bin/env python3
"""Makes data/learning.safetensors, training runs in which more than a network is at stake (what is frozen when, penalties on derivatives, edges
and boxes chosen by numbers), for tests/programs/learning_test.cpp; make_golden.py says how to run it. Laid out as programs.safetensors."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from make_golden import save
from make_golden_programs import OUT, note, train


class Layers(nn.Module):
    """Linear layers with a function between them."""

    def __init__(self, sizes, between=torch.relu):
        super().__init__()
        self.count, self.between = len(sizes) - 1, between
        for i in range(self.count):
            setattr(self, f"layer{i}", nn.Linear(sizes[i], sizes[i + 1]))

    def forward(self, x):
        for i in range(self.count):
            x = getattr(self, f"layer{i}")(x if i == 0 else self.between(x))
        return x


def thaw():
    """The first layer is frozen for four steps, the second for two; two groups of parameters."""
    model, steps = Layers([6, 10, 10, 4]), 10
    x, y = torch.randn(steps, 5, 6), torch.randint(4, (steps, 5))
    note("thaw", model, x=x, y=y)
    weights, biases = ([p for p in model.parameters() if p.ndim == ndim] for ndim in (2, 1))
    optimizers = [torch.optim.AdamW(weights, lr=2e-2, weight_decay=0.1), torch.optim.Adam(biases, lr=2e-2)]
    losses = []
    for step in range(steps):
        for p in model.layer0.parameters():
            p.requires_grad_(step >= 4)
        for p in model.layer1.parameters():
            p.requires_grad_(step >= 2)
        loss = F.cross_entropy(model(x[step]), y[step])
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    OUT["thaw.losses"] = torch.tensor(losses, dtype=torch.float64)
    print("thaw", losses[0], "->", losses[-1])


class Aggregation(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.message, self.mix, self.norm = nn.Linear(2 * i, i), nn.Linear(5 * i, o), nn.BatchNorm1d(o)

    def forward(self, x, source, target):
        messages = torch.relu(self.message(torch.cat([x[source], x[target]], 1)))
        index = target[:, None].expand(-1, x.shape[1])
        parts = [torch.zeros_like(x).scatter_reduce(0, index, messages, kind, include_self=False) for kind in ("mean", "amax", "amin")]
        parts.append(torch.zeros_like(x).index_add_(0, target, messages))
        return torch.relu(self.norm(self.mix(torch.cat([x] + parts, 1))))


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = Aggregation(4, 8), Aggregation(8, 8), nn.Linear(8, 3)


def graph():
    model, steps = Graph(), 8
    x, source, target, owner = torch.randn(20, 4), torch.randint(20, (60,)), torch.randint(20, (60,)), torch.arange(20) // 5
    y = torch.randint(3, (4,))
    note("graph", model, x=x, source=source, target=target, owner=owner, y=y)

    def loss_of(step):
        h = model.second(model.first(x, source, target), source, target)
        return F.cross_entropy(model.head(torch.zeros(4, 8).index_add_(0, owner, h) / 5), y)

    train("graph", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


def relations():
    """Edges of each relation are taken by a mask."""
    model, steps = Layers([8, 8, 3]), 8
    embedding, weights = nn.Parameter(torch.randn(15, 8)), nn.Parameter(torch.randn(3, 8, 8) * 0.3)
    source, target, kind, y = torch.randint(15, (50,)), torch.randint(15, (50,)), torch.randint(3, (50,)), torch.randint(3, (15,))
    known = torch.rand(15) < 0.6
    note("relations", model, embedding=embedding, weights=weights, source=source, target=target, kind=kind, y=y, known=known)

    def loss_of(step):
        out = model.layer0(embedding)
        for r in range(3):
            mask = kind == r
            out = out.index_add(0, target[mask], embedding[source[mask]] @ weights[r])
        return F.cross_entropy(model.layer1(torch.relu(out))[known], y[known])

    train("relations", torch.optim.Adam([*model.parameters(), embedding, weights], lr=2e-2), steps, loss_of)


def equation():
    """u_t + u u_x = nu u_xx, from derivatives of the network by its inputs."""
    model, steps = Layers([2, 12, 12, 1], torch.tanh), 8
    places, start = torch.rand(30, 2) * 2 - 1, torch.rand(8, 1) * 2 - 1
    note("equation", model, places=places, start=start)

    def loss_of(step):
        x, t = places[:, :1].clone().requires_grad_(), places[:, 1:].abs().requires_grad_()
        u = model(torch.cat([x, t], 1))
        one = torch.ones_like(u)
        u_x, u_t = torch.autograd.grad(u, [x, t], one, create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x, x, one, create_graph=True)
        rest = u_t + u * u_x - 0.01 / math.pi * u_xx
        return rest.square().mean() + F.mse_loss(model(torch.cat([start, torch.zeros_like(start)], 1)), -torch.sin(math.pi * start))

    train("equation", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


def rays():
    """Volume rendering: coarse samples along rays, finer ones where the first pass saw something."""
    model, steps, n = Layers([9, 16, 4]), 6, 8
    origin, direction, target = torch.randn(6, 3) * 0.1, F.normalize(torch.randn(6, 3), dim=-1), torch.rand(6, 3)
    jitter, draws = torch.rand(steps, 6, n), torch.rand(steps, 6, n)
    note("rays", model, origin=origin, direction=direction, target=target, jitter=jitter, draws=draws)

    def render(z):
        x = origin[:, None] + direction[:, None] * z[..., None]
        out = model(torch.cat([x, torch.sin(x), torch.cos(x)], -1))
        opacity = 1 - torch.exp(-F.softplus(out[..., 0]) * torch.cat([z[:, 1:] - z[:, :-1], torch.full((6, 1), 1e10)], 1))
        through = torch.cumprod(torch.cat([torch.ones(6, 1), 1 - opacity + 1e-10], 1), 1)[:, :-1]
        weights = opacity * through
        return (weights[..., None] * torch.sigmoid(out[..., 1:])).sum(1), weights

    def loss_of(step):
        z = 2 + 4 * (torch.arange(n) + jitter[step]) / n
        coarse, weights = render(z)
        density = weights.detach()[:, 1:-1] + 1e-5
        cdf = torch.cat([torch.zeros(6, 1), (density / density.sum(1, True)).cumsum(1)], 1)
        middle = 0.5 * (z[:, 1:] + z[:, :-1])
        above = torch.searchsorted(cdf, draws[step], right=True)
        low, high = (above - 1).clamp(0), above.clamp(max=cdf.shape[1] - 1)
        span = cdf.gather(1, high) - cdf.gather(1, low)
        share = (draws[step] - cdf.gather(1, low)) / torch.where(span < 1e-5, 1.0, span)
        fine = middle.gather(1, low) + share * (middle.gather(1, high) - middle.gather(1, low))
        return F.mse_loss(coarse, target) + F.mse_loss(render(torch.cat([z, fine], 1).sort(1)[0])[0], target)

    train("rays", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


def codebook():
    """Straight-through rounding to the nearest code; codes follow by averages."""
    model, steps = Layers([8, 12, 4, 12, 8]), 8
    x, code = torch.randn(steps, 16, 8), torch.randn(10, 4) * 0.3
    note("codebook", model, x=x, code=code)
    sizes, sums, losses = torch.ones(10), code.clone(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        z = model.layer1(torch.relu(model.layer0(x[step])))
        nearest = (z.square().sum(1, True) - 2 * z @ code.t() + code.square().sum(1)).argmin(1)
        q = code[nearest]
        passed = z + (q - z).detach()
        loss = F.mse_loss(model.layer3(torch.relu(model.layer2(passed))), x[step]) + 0.25 * F.mse_loss(z, q)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            chosen = F.one_hot(nearest, 10).float()
            sizes.mul_(0.9).add_(chosen.sum(0) * 0.1)
            sums.mul_(0.9).add_(chosen.t() @ z * 0.1)
            code.copy_(sums / sizes.clamp(min=1e-3)[:, None])
        losses.append(loss.item())
    OUT["codebook.losses"], OUT["codebook.last"] = torch.tensor(losses, dtype=torch.float64), code
    print("codebook", losses[0], "->", losses[-1])


def overlap(a, b):
    inside = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(0.0).prod(-1)
    area = lambda box: (box[..., 2:] - box[..., :2]).prod(-1)
    return inside / (area(a) + area(b) - inside + 1e-9)


def boxes():
    """Predictions matched to boxes by overlap, focal loss on whether there is one; then those kept that overlap with no better one."""
    model, steps = Layers([6, 24, 60]), 6
    x, centre, size = torch.randn(steps, 3, 6), torch.rand(3, 4, 2) * 0.8 + 0.1, torch.rand(3, 4, 2) * 0.3 + 0.05
    valid = torch.arange(4) < torch.tensor([[4], [2], [3]])
    note("boxes", model, x=x, centre=centre, size=size, valid=valid)
    given = torch.cat([centre - size / 2, centre + size / 2], -1)

    def predict(step):
        p = model(x[step]).view(3, 12, 5)
        c, s = torch.sigmoid(p[..., :2]), torch.exp(p[..., 2:4].clamp(max=2.0)) * 0.2
        return torch.cat([c - s / 2, c + s / 2], -1), p[..., 4]

    def loss_of(step):
        predicted, score = predict(step)
        shared = overlap(predicted[:, :, None], given[:, None]).masked_fill(~valid[:, None], 0.0).detach()
        best, taken = shared.max(2)[0], shared.argmax(1)
        there = torch.zeros(3, 12).scatter_reduce(1, taken, valid.float(), "amax")
        chosen = predicted.gather(1, taken[..., None].expand(3, 4, 4))
        place = ((1 - overlap(chosen, given)) * valid).sum() / valid.sum()
        p = torch.sigmoid(score)
        focal = F.binary_cross_entropy_with_logits(score, there, reduction="none") * torch.where(there > 0, 1 - p, p) ** 2
        return place + focal.masked_fill((best > 0.5) & (there == 0), 0.0).sum() / 3

    train("boxes", torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True), steps, loss_of)
    with torch.no_grad():
        predicted, score = (t[0] for t in predict(0))
        alive, kept = torch.ones(12, dtype=torch.bool), []
        while alive.any():
            best = torch.where(alive, score, -math.inf).argmax()
            kept.append(best)
            alive &= (overlap(predicted, predicted[best]) < 0.3) & (torch.arange(12) != best)
        note("boxes", kept=torch.stack(kept))


def equilibrium():
    """The loss is of a fixed point; its derivative solves a linear fixed point of its own."""
    cell, head, steps = Layers([8, 8]), nn.Linear(8, 3), 6
    x, y = torch.randn(steps, 6, 8), torch.randint(3, (steps, 6))
    note("equilibrium", cell, x=x, y=y)
    note("equilibrium.head", head)
    parameters = [*cell.parameters(), *head.parameters()]
    optimizer, losses = torch.optim.Adam(parameters, lr=1e-2), []
    step_of = lambda z, u: torch.tanh(0.5 * cell(z) + u)
    for step in range(steps):
        with torch.no_grad():
            z = torch.zeros(6, 8)
            for _ in range(30):
                last, z = z, step_of(z, x[step])
                if (z - last).norm() < 1e-4:
                    break
        start = z.detach().requires_grad_()
        out = step_of(start, x[step])
        loss = F.cross_entropy(head(out), y[step])
        direct = torch.autograd.grad(loss, [out, *head.parameters()], retain_graph=True)
        adjoint = direct[0]
        for _ in range(10):
            adjoint = direct[0] + torch.autograd.grad(out, start, adjoint, retain_graph=True)[0]
        optimizer.zero_grad()
        for parameter, gradient in zip(head.parameters(), direct[1:]):
            parameter.grad = gradient
        out.backward(adjoint)
        optimizer.step()
        losses.append(loss.item())
    OUT["equilibrium.losses"] = torch.tensor(losses, dtype=torch.float64)
    print("equilibrium", losses[0], "->", losses[-1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(13)
    for run in (thaw, graph, relations, equation, rays, codebook, boxes, equilibrium):
        run()
    save("learning.safetensors", OUT)
