"""PyTorch's side of model_case.h: the same models, inputs and steps by the same names."""
import os
import sys

import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../tools/models"))
import networks

TEXTS = {"bert_base": 30522, "gpt2": 30000, "tinyllama": 30000}  # models of tokens below these
LENGTH = 64


def split(case):
    name, batch = case.rsplit("_", 1)
    return name, int(batch)


def has(case):
    return split(case)[0] in networks.FULL


def make(case):
    """A model in training, with the fastest attention that PyTorch has."""
    torch.manual_seed(1)
    model = networks.FULL[split(case)[0]]().train()
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("sdpa")
    if hasattr(model, "config"):
        model.config.use_cache = False
    return model


def example(case):
    name, batch = split(case)
    if name in TEXTS:
        return [torch.randint(TEXTS[name], (batch, LENGTH))]
    if name == "mlp_3x8192":
        return [torch.rand(batch, 8192)]
    if name == "vae":
        return [torch.rand(batch, 784), torch.rand(batch, 20)]
    return [torch.rand(batch, 3, 224, 224)]


def first_of(results):
    """The tensor that a model's first result is."""
    for name in ("logits", "last_hidden_state"):
        if hasattr(results, name):
            return getattr(results, name)
    return results[0] if isinstance(results, tuple) else results


def loss_of(case, results, inputs):
    name, out = split(case)[0], first_of(results)
    if name in ("gpt2", "tinyllama"):
        return F.cross_entropy(out.reshape(-1, out.shape[-1]), inputs[0].reshape(-1))
    if name in ("bert_base", "mlp_3x8192", "unet", "vae"):
        return (out * out).mean()
    return F.cross_entropy(out, torch.zeros(len(out), dtype=torch.long))


def step_of(case, model, forward, inputs, fast_update=True):
    """A step that returns its loss. fast_update: of all parameters at once, with more memory."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=fast_update)

    def step():
        optimizer.zero_grad()
        loss = loss_of(case, forward(*inputs), inputs)
        loss.backward()
        optimizer.step()
        return loss

    return step
