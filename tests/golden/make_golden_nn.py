#!/usr/bin/env python3
"""Makes data/recurrent.safetensors, data/cells.safetensors and data/class_losses.safetensors; make_golden.py says how to run it, and makes the others.

Of each recurrent network: its parameters by PyTorch's names (p.*), inputs, results, weights of the results, and the derivatives of
the weighted sum (grad.*).
"""
import torch
import torch.nn.functional as F

from make_golden import Cases, save


def recurrent():
    torch.manual_seed(5)
    out = {}

    def case(name, net, x, *states):
        leaves = {"x": x, **dict(zip(("hidden0", "cell0"), states))}
        leaves = {key: value.clone().requires_grad_() for key, value in leaves.items()}
        start = [leaves[key] for key in ("hidden0", "cell0") if key in leaves]
        output, last = net(leaves["x"], *([tuple(start) if len(start) == 2 else start[0]] if start else []))
        results = dict(zip(("output", "hidden", "cell"), (output, *(last if isinstance(last, tuple) else (last,)))))
        weights = {key: torch.randn_like(value) for key, value in results.items()}
        sum((value * weights[key]).sum() for key, value in results.items()).backward()
        out.update({f"{name}.{key}": value.detach() for key, value in (leaves | results).items()})
        out.update({f"{name}.weight.{key}": value for key, value in weights.items()})
        out.update({f"{name}.p.{key}": value.detach() for key, value in net.named_parameters()})
        out.update({f"{name}.grad.{key}": value.grad for key, value in leaves.items()})
        out.update({f"{name}.grad.p.{key}": value.grad for key, value in net.named_parameters()})

    T, B, I, H = 5, 3, 4, 6
    kinds = {"rnn_tanh": (torch.nn.RNN, {}), "rnn_relu": (torch.nn.RNN, {"nonlinearity": "relu"}), "lstm": (torch.nn.LSTM, {}), "gru": (torch.nn.GRU, {})}
    for kind, (net, options) in kinds.items():
        states = lambda *shape: [torch.randn(shape) for _ in range(2 if kind == "lstm" else 1)]
        case(f"{kind}_plain", net(I, H, **options), torch.randn(T, B, I))
        case(f"{kind}_deep", net(I, H, num_layers=3, **options), torch.randn(T, B, I), *states(3, B, H))
        case(f"{kind}_both", net(I, H, num_layers=2, bidirectional=True, batch_first=True, **options), torch.randn(B, T, I), *states(4, B, H))
        case(f"{kind}_bare", net(I, H, bias=False, **options), torch.randn(T, I), *states(1, H))
        case(f"{kind}_one", net(I, H, bidirectional=True, **options), torch.randn(1, B, I))
    save("recurrent.safetensors", out)


def cells():
    """Two steps of each cell, the second from the states of the first."""
    torch.manual_seed(7)
    out = {}

    def case(name, cell, xs, *states):
        leaves = {"x": xs, **dict(zip(("hidden0", "cell0"), states))}
        leaves = {key: value.clone().requires_grad_() for key, value in leaves.items()}
        state = [leaves[key] for key in ("hidden0", "cell0") if key in leaves]
        for x in leaves["x"]:
            given = [tuple(state) if len(state) == 2 else state[0]] if state else []
            state = cell(x, *given)
            state = list(state) if isinstance(state, tuple) else [state]
        results = dict(zip(("hidden", "cell"), state))
        weights = {key: torch.randn_like(value) for key, value in results.items()}
        sum((value * weights[key]).sum() for key, value in results.items()).backward()
        out.update({f"{name}.{key}": value.detach() for key, value in (leaves | results).items()})
        out.update({f"{name}.weight.{key}": value for key, value in weights.items()})
        out.update({f"{name}.p.{key}": value.detach() for key, value in cell.named_parameters()})
        out.update({f"{name}.grad.{key}": value.grad for key, value in leaves.items()})
        out.update({f"{name}.grad.p.{key}": value.grad for key, value in cell.named_parameters()})

    B, I, H = 3, 4, 6
    kinds = {"rnn_tanh": (torch.nn.RNNCell, {}), "rnn_relu": (torch.nn.RNNCell, {"nonlinearity": "relu"}), "lstm": (torch.nn.LSTMCell, {}),
             "gru": (torch.nn.GRUCell, {})}
    for kind, (cell, options) in kinds.items():
        states = lambda *shape: [torch.randn(shape) for _ in range(2 if kind == "lstm" else 1)]
        case(f"{kind}_plain", cell(I, H, **options), torch.randn(2, B, I))
        case(f"{kind}_from", cell(I, H, **options), torch.randn(2, B, I), *states(B, H))
        case(f"{kind}_bare", cell(I, H, bias=False, **options), torch.randn(2, I), *states(H))
    save("cells.safetensors", out)


def class_losses():
    torch.manual_seed(6)
    c = Cases()
    logits, targets = 3 * torch.randn(6, 7), torch.tensor([0, -100, 3, -100, 1, 5])
    weight, soft = torch.rand(7) + 0.1, torch.rand(6, 7).softmax(1)
    weight[3] = 0
    for reduction in ("mean", "sum", "none"):
        r = {"reduction": reduction}
        c.add(f"weighted_{reduction}", lambda x, w, t: F.cross_entropy(x, t, w.detach(), **r), x=logits, w=weight, t=targets)
        c.add(f"smooth_{reduction}", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.2, **r), x=logits, t=targets)
        c.add(f"both_{reduction}", lambda x, w, t: F.cross_entropy(x, t, w.detach(), label_smoothing=0.2, **r), x=logits, w=weight, t=targets)
        c.add(f"soft_{reduction}", lambda x, t: F.cross_entropy(x, t.detach(), **r), x=logits, t=soft)
        c.add(f"softall_{reduction}", lambda x, w, t: F.cross_entropy(x, t.detach(), w.detach(), label_smoothing=0.1, **r), x=logits, w=weight, t=soft)
        c.add(f"ignored3_{reduction}", lambda x, w, t: F.cross_entropy(x, t, w.detach(), ignore_index=3, label_smoothing=0.3, **r), x=logits, w=weight, t=torch.tensor([0, 6, 3, 3, 1, 5]))
        c.add(f"nll_{reduction}", lambda x, w, t: F.nll_loss(x, t, w.detach(), **r), x=logits.log_softmax(1), w=weight, t=targets)
    c.add("row_mean", lambda x, w, t: F.cross_entropy(x, t, w.detach(), label_smoothing=0.2), x=torch.randn(7), w=weight, t=torch.tensor(2))
    save("class_losses.safetensors", c.tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    recurrent()
    cells()
    class_losses()
