"""PyTorch's side of model_case.h: the same models, inputs and steps by the same names."""
import os
import sys

import torch
import torchvision
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


def make_distinct(model):
    """Gives a new model numbers that a mistake shows with. As they are made, some last layers are
    zero, layers are scaled by 1e-6, and statistics leave everything as it is."""
    for parameter in model.parameters():
        if parameter.detach().abs().max() < 1e-3:
            torch.nn.init.normal_(parameter, std=0.02)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)


def drop_nothing(model):
    """From here on nothing is left to chance, also in training."""
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0.0


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
    return F.cross_entropy(out, torch.zeros(len(out), dtype=torch.long, device=out.device))


class Loss(torch.nn.Module):
    """The step's forward as a module of its inputs."""

    def __init__(self, case, model):
        super().__init__()
        self.case, self.model = case, model

    def forward(self, *inputs):
        return loss_of(self.case, self.model(*inputs), inputs)


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
