#!/usr/bin/env python3
"""Makes data/architectures.safetensors, training runs of further networks, for tests/programs/{image,sequence,routing}_networks_test.cpp;
make_golden.py says how to run it. Laid out as programs.safetensors."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from make_golden import save
from make_golden_programs import OUT, note, train


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.down, self.deep = block(2, 8), block(8, 12), block(12, 16)
        self.up = nn.ConvTranspose2d(16, 12, 2, stride=2)
        self.join, self.leave, self.head = block(24, 12), block(20, 8), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.enter(x)
        b = self.down(F.max_pool2d(a, 2))
        c = self.deep(F.avg_pool2d(b, 2))
        d = self.join(torch.cat([self.up(c), b], 1))
        e = F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.leave(torch.cat([e, a], 1)))


def unet():
    model, steps = UNet(), 8
    x = torch.randn(steps, 2, 2, 16, 16)
    y = (F.avg_pool2d(x[:, :, 0], 3, 1, 1) > 0.1).float()
    note("unet", model, x=x, y=y)

    def loss_of(step):
        logits = model(x[step])[:, 0]
        p = torch.sigmoid(logits)
        dice = 1 - 2 * (p * y[step]).sum() / (p.sum() + y[step].sum() + 1)
        return F.binary_cross_entropy_with_logits(logits, y[step]) + dice

    train("unet", torch.optim.AdamW(model.parameters(), lr=5e-3), steps, loss_of)


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(size, size) for _ in range(4))
        self.heads = heads

    def split(self, x):
        return x.view(*x.shape[:-1], self.heads, -1).transpose(-2, -3)

    def forward(self, x, mask=None, memory=None):
        memory = x if memory is None else memory
        y = F.scaled_dot_product_attention(self.split(self.q_proj(x)), self.split(self.k_proj(memory)), self.split(self.v_proj(memory)), mask)
        return self.out_proj(y.transpose(-2, -3).flatten(-2))


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.norm1, self.norm2, self.self_attn = nn.LayerNorm(size), nn.LayerNorm(size), Attention(size, heads)
        self.linear1, self.linear2 = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x, mask=None):
        x = x + self.self_attn(self.norm1(x), mask)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.token, self.places = nn.Conv2d(3, 16, 4, stride=4), nn.Parameter(torch.randn(1, 1, 16) * 0.1), nn.Parameter(torch.randn(1, 10, 16) * 0.1)
        self.block0, self.block1, self.norm, self.head = Block(16, 4), Block(16, 4), nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x, seen):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        mask = torch.cat([torch.ones(x.shape[0], 1, dtype=torch.bool), seen], 1)[:, None, None, :]
        return self.head(self.norm(self.block1(self.block0(x, mask), mask))[:, 0])


def vit():
    model, steps = ViT(), 10
    x, seen, y = torch.randn(steps, 3, 3, 12, 12), torch.rand(steps, 3, 9) > 0.3, torch.randint(5, (steps, 3))
    note("vit", model, x=x, seen=seen, y=y)
    train("vit", torch.optim.AdamW(model.parameters(), lr=1e-2), steps, lambda step: F.cross_entropy(model(x[step], seen[step]), y[step]), clip=1.0)


class Dense(nn.Module):
    """Each layer reads all before it; a squeeze-and-excite gate; strided and depthwise convolutions."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        for i in range(4):
            setattr(self, f"norm{i}", nn.BatchNorm2d(8 + 4 * i))
            setattr(self, f"conv{i}", nn.Conv2d(8 + 4 * i, 4, 3, padding=1, bias=False))
        self.depth, self.squeeze, self.excite = nn.Conv2d(24, 24, 3, padding=1, stride=2, groups=24), nn.Linear(24, 6), nn.Linear(6, 24)
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        x = self.stem(x)
        for i in range(4):
            x = torch.cat([x, getattr(self, f"conv{i}")(F.relu(getattr(self, f"norm{i}")(x)))], 1)
        x = F.hardswish(self.depth(x))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3))))))
        return self.head((x * gate[:, :, None, None]).mean((2, 3)))


def dense():
    model, steps = Dense(), 8
    x, y = torch.randn(steps, 4, 3, 10, 10), torch.randint(4, (steps, 4))
    note("dense", model, x=x, y=y)
    train("dense", torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3), steps, lambda step: F.cross_entropy(model(x[step]), y[step]))
    model.eval()
    with torch.no_grad():
        note("dense", mean=model.norm3.running_mean, var=model.norm3.running_var, evaluated=model(x[0]))


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 6, 3, stride=2), nn.Linear(54, 8)

    def forward(self, x):
        y = self.out(F.leaky_relu(self.conv(x), 0.1).flatten(1))
        return y / y.norm(dim=1, keepdim=True)


def siamese():
    """Triplet loss with the hardest positive and negative of the batch (Hermans et al. 2017)."""
    model, steps = Twin(), 10
    label = torch.arange(9) // 3
    x = torch.randn(steps, 9, 1, 8, 8) + torch.randn(3, 1, 8, 8)[label]
    note("siamese", model, x=x, label=label)

    def loss_of(step):
        e = model(x[step])
        squared = (e[:, None] - e[None]).square().sum(2)
        distance = (squared + 1e-12).sqrt()
        same = label[:, None] == label[None]
        far = torch.where(same, distance, torch.zeros(())).amax(1)
        near = distance.masked_fill(same, math.inf).amin(1)
        return F.relu(far - near + 0.3).mean()

    train("siamese", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv0, self.norm, self.conv1, self.out = nn.Conv2d(1, 6, 4, stride=2, padding=1), nn.BatchNorm2d(6), nn.Conv2d(6, 8, 3, padding=1), nn.Linear(32, 1)

    def forward(self, x):
        h = F.leaky_relu(self.norm(self.conv0(x)), 0.2)
        return self.out(F.max_pool2d(F.silu(self.conv1(h)), 2).flatten(1))


class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.conv = nn.ConvTranspose2d(5, 6, 4), nn.BatchNorm2d(6), nn.ConvTranspose2d(6, 1, 4, stride=2, padding=1)

    def forward(self, z):
        return torch.tanh(self.conv(F.relu(self.norm(self.up(z[:, :, None, None])))))


def gan():
    """Two optimizers by turns, a gradient's norm in the critic's loss, through convolutions, batch norm and max pooling."""
    critic, maker, steps = Critic(), Maker(), 8
    real, z, share = torch.randn(steps, 4, 1, 8, 8).tanh(), torch.randn(steps, 4, 5), torch.rand(steps, 4, 1, 1, 1)
    note("gan", real=real, z=z, share=share)
    note("gan.critic", critic)
    note("gan.maker", maker)
    a, b = torch.optim.Adam(critic.parameters(), lr=5e-3, betas=(0.5, 0.9)), torch.optim.Adam(maker.parameters(), lr=5e-3, betas=(0.5, 0.9))
    critic_losses, maker_losses = [], []
    for step in range(steps):
        fake = maker(z[step])
        between = (share[step] * real[step] + (1 - share[step]) * fake.detach()).requires_grad_()
        (g,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = ((g.flatten(1).square().sum(1) + 1e-12).sqrt() - 1).square().mean()
        loss = critic(fake.detach()).mean() - critic(real[step]).mean() + 10 * penalty
        a.zero_grad()
        loss.backward()
        a.step()
        other = -critic(maker(z[step])).mean()
        b.zero_grad()
        other.backward()
        b.step()
        critic_losses.append(loss.item())
        maker_losses.append(other.item())
    OUT["gan.critic_losses"], OUT["gan.maker_losses"] = torch.tensor(critic_losses).double(), torch.tensor(maker_losses).double()
    print("gan", critic_losses, maker_losses)


class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(3, 16), nn.Linear(16, 6)

    def forward(self, x, mask):
        s, t = self.down(torch.tanh(self.up(x * mask))).chunk(2, 1)
        s = torch.tanh(s) * (1 - mask)
        return x * torch.exp(s) + t * (1 - mask), s.sum(1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(3):
            setattr(self, f"layer{i}", Coupling())


def flow():
    """RealNVP (Dinh et al. 2017): the likelihood by the logarithm of a determinant; the inverse gives back what went in."""
    model, steps = Flow(), 12
    x = torch.randn(steps, 16, 3)
    x[:, :, 1] += x[:, :, 0].square()
    masks = torch.tensor([[1.0, 0, 1], [0, 1, 0], [1, 1, 0]])
    note("flow", model, x=x, masks=masks)

    def loss_of(step):
        z, volume = x[step], torch.zeros(16)
        for i in range(3):
            z, more = getattr(model, f"layer{i}")(z, masks[i])
            volume = volume + more
        return (0.5 * z.square().sum(1) + 1.5 * math.log(2 * math.pi) - volume).mean()

    train("flow", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(3, 24), nn.Linear(24, 2)

    def forward(self, t, x):
        return self.down(torch.tanh(self.up(torch.cat([x, t.expand(x.shape[0], 1)], 1))))


def ode():
    """A path through a learned vector field by Runge and Kutta's method, in steps of its own number each time (Chen et al. 2018)."""
    model, steps = Field(), 9
    x, y = torch.randn(steps, 10, 2), torch.randn(steps, 10, 2)
    note("ode", model, x=x, y=y)

    def loss_of(step):
        n, z = 2 + step % 3, x[step]
        h = 1.0 / n
        for i in range(n):
            t = torch.tensor(i * h)
            a = model(t, z)
            b = model(t + h / 2, z + h / 2 * a)
            c = model(t + h / 2, z + h / 2 * b)
            d = model(t + h, z + h * c)
            z = z + h / 6 * (a + 2 * b + 2 * c + d)
        return F.smooth_l1_loss(z, y[step])

    train("ode", torch.optim.RMSprop(model.parameters(), lr=5e-3), steps, loss_of)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(6, 4, bias=False), nn.Parameter(torch.randn(4, 6, 12) * 0.3), nn.Parameter(torch.randn(4, 12, 6) * 0.3)


def experts():
    """The two best of four experts for each row, each with room for six rows; and a loss that spreads the rows (Fedus et al. 2022)."""
    model, steps, room = Experts(), 10, 6
    x, y = torch.randn(steps, 10, 6), torch.randn(steps, 10, 6)
    note("experts", model, x=x, y=y)

    def loss_of(step):
        share = torch.softmax(model.gate(x[step]), 1)
        value, expert = torch.topk(share, 2, 1)
        value = value / value.sum(1, keepdim=True)
        chosen = F.one_hot(expert.t().flatten(), 4)  # first choices first
        place = (chosen.cumsum(0) * chosen).sum(1) - 1
        fits = place < room
        slot = torch.where(fits, expert.t().flatten() * room + place, 4 * room)
        rows = torch.cat([x[step], x[step]])
        buffer = torch.zeros(4 * room + 1, 6).index_put((slot,), rows)[:-1].view(4, room, 6)
        out = torch.bmm(F.relu(torch.bmm(buffer, model.up)), model.down).view(4 * room, 6)
        out = torch.cat([out, torch.zeros(1, 6)])[slot] * value.t().flatten()[:, None]
        result = torch.zeros(10, 6).index_add(0, torch.arange(20) % 10, out)
        spread = 4 * (F.one_hot(expert[:, 0], 4).float().mean(0) * share.mean(0)).sum()
        return F.mse_loss(result, y[step]) + 0.01 * spread

    train("experts", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


class Gat(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.a, self.b, self.head = nn.Linear(5, 8, bias=False), nn.Parameter(torch.randn(8) * 0.3), nn.Parameter(torch.randn(8) * 0.3), nn.Linear(8, 3)


def gat():
    """Attention over each node's edges (Velickovic et al. 2018): a softmax whose groups a tensor of indices makes."""
    model, steps, nodes, edges = Gat(), 12, 14, 40
    x, source, target, labels = torch.randn(nodes, 5), torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,)), torch.randint(3, (nodes,))
    note("gat", model, x=x, source=source, target=target, labels=labels)

    def loss_of(step):
        h = model.w(x)
        score = F.leaky_relu((h * model.a).sum(1)[source] + (h * model.b).sum(1)[target], 0.2)
        most = torch.full((nodes,), -math.inf).scatter_reduce(0, target, score, "amax")
        weight = torch.exp(score - most.detach()[target])
        total = torch.zeros(nodes).scatter_add(0, target, weight)
        h = torch.zeros(nodes, 8).index_add(0, target, (weight / total[target])[:, None] * h[source])
        return F.cross_entropy(model.head(F.elu(h)), labels)

    train("gat", torch.optim.Adam(model.parameters(), lr=2e-2), steps, loss_of)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Embedding(300, 8), nn.Embedding(300, 8)


def words():
    """Skip-gram with negative samples (Mikolov et al. 2013)."""
    model, steps = Words(), 10
    center, context, other = torch.randint(300, (steps, 24)), torch.randint(300, (steps, 24)), torch.randint(300, (steps, 24, 5))
    note("words", model, center=center, context=context, other=other)

    def loss_of(step):
        c = model.inner(center[step])
        near = (c * model.outer(context[step])).sum(1)
        far = torch.einsum("bd,bnd->bn", c, model.outer(other[step]))
        return -(F.logsigmoid(near) + F.logsigmoid(-far).sum(1)).mean()

    train("words", torch.optim.Adagrad(model.parameters(), lr=0.1), steps, loss_of)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.encoder, self.decoder = nn.Embedding(11, 8), nn.GRU(8, 10, bidirectional=True, batch_first=True), nn.GRU(28, 10, batch_first=True)
        self.query, self.key, self.score, self.start, self.head = nn.Linear(10, 12), nn.Linear(20, 12, bias=False), nn.Linear(12, 1, bias=False), nn.Linear(20, 10), nn.Linear(30, 11)


def seq2seq():
    """Bahdanau's translation (2015): an encoder that reads both ways, a decoder that looks back at each step, lengths of their own."""
    model, steps = Seq2Seq(), 8
    source, target = torch.randint(1, 11, (steps, 4, 6)), torch.randint(1, 11, (steps, 4, 5))
    length = torch.randint(3, 7, (steps, 4))
    note("seq2seq", model, source=source, target=target, length=length)

    def loss_of(step):
        seen = torch.arange(6)[None] < length[step][:, None]
        memory, last = model.encoder(model.embed(source[step]))
        keys, state = model.key(memory), torch.tanh(model.start(torch.cat([last[0], last[1]], 1)))[None]
        loss, word = 0, torch.zeros(4, dtype=torch.int64)
        for t in range(5):
            score = model.score(torch.tanh(model.query(state[0])[:, None] + keys))[:, :, 0]
            weight = torch.softmax(score.masked_fill(~seen, -math.inf), 1)
            context = torch.bmm(weight[:, None], memory)
            y, state = model.decoder(torch.cat([model.embed(word)[:, None], context], 2), state)
            loss = loss + F.cross_entropy(model.head(torch.cat([y, context], 2))[:, 0], target[step, :, t])
            word = target[step, :, t]
        return loss / 5

    train("seq2seq", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of, clip=2.0)


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 16), nn.Linear(16, 5)


def ctc():
    """Connectionist temporal classification (Graves et al. 2006), its recursion written out; PyTorch's own ctc_loss gives the losses."""
    model, steps, time, batch, length = Speech(), 8, 12, 3, 4
    x, y = torch.randn(steps, time, batch, 6), torch.randint(1, 5, (steps, batch, length))
    note("ctc", model, x=x, y=y)

    def loss_of(step):
        log_p = torch.log_softmax(model.down(torch.tanh(model.up(x[step]))), 2)
        return F.ctc_loss(log_p, y[step], torch.full((batch,), time), torch.full((batch,), length), reduction="sum") / batch

    train("ctc", torch.optim.Adam(model.parameters(), lr=1e-2), steps, loss_of)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.places, self.block0, self.block1, self.norm, self.head = nn.Embedding(13, 16), nn.Embedding(24, 16), Block(16, 2), Block(16, 2), nn.LayerNorm(16), nn.Linear(16, 13)


def cache():
    """A decoder trained on sequences of several lengths, then words one by one: the greedy continuation."""
    model, lengths = Decoder(), [9, 14, 11] * 4
    ids = torch.randint(13, (len(lengths), 3, 17))
    note("cache", model, ids=ids, lengths=torch.tensor(lengths))

    def run(ids):
        t = ids.shape[1]
        h, mask = model.embed(ids) + model.places(torch.arange(t)), torch.ones(t, t, dtype=torch.bool).tril()
        return model.head(model.norm(model.block1(model.block0(h, mask), mask)))

    def loss_of(step):
        n = lengths[step]
        return F.cross_entropy(run(ids[step, :, :n]).flatten(0, 1), ids[step, :, 1 : n + 1].flatten())

    train("cache", torch.optim.AdamW(model.parameters(), lr=1e-2), len(lengths), loss_of)
    with torch.no_grad():
        said = ids[0, :2, :4]
        for _ in range(20):
            logits = run(said)[:, -1]
            said = torch.cat([said, logits.argmax(1)[:, None]], 1)
    note("cache", said=said, logits=logits)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(64, 3)

    def forward(self, x):
        return self.out(F.max_pool2d(torch.tanh(self.norm(self.conv(x))), 2).flatten(1))


def curvature():
    """The Hessian of a convolutional network's loss times a vector, and the derivative of its gradient's norm."""
    model, x, y = Small(), torch.randn(4, 1, 8, 8), torch.randint(3, (4,))
    vectors = [torch.randn(p.shape) for p in model.parameters()]
    note("curvature", model, x=x, y=y, **{f"vector{i}": v for i, v in enumerate(vectors)})
    model, x, vectors = model.double(), x.double(), [v.double() for v in vectors]
    gradients = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()), create_graph=True)
    products = torch.autograd.grad(sum((g * v).sum() for g, v in zip(gradients, vectors)), list(model.parameters()), retain_graph=True)
    norms = torch.autograd.grad(sum(g.square().sum() for g in gradients).sqrt(), list(model.parameters()))
    note("curvature", **{f"product{i}": p for i, p in enumerate(products)}, **{f"norm{i}": n for i, n in enumerate(norms)})


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(11)
    for run in (unet, vit, dense, siamese, gan, flow, ode, experts, gat, words, seq2seq, ctc, cache, curvature):
        run()
    save("architectures.safetensors", OUT)
