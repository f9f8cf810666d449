#!/usr/bin/env python3
"""Makes tests/models/data from torchvision and transformers: names and shapes of all parameters and
buffers, and what small models compute.

    tools/models/make_figures.py [CASE...]

Needs torch, torchvision, transformers and safetensors; run it when a model is added or changed.
- full.txt: a line for each model of the registry: name, tensors, elements of its parameters, and a
  digest (FNV-1a, 64 bits) of its sorted lines "NAME DTYPE SIZE", sizes joined by x.
- CASE.safetensors: such lines of a small model, in PyTorch's order (metadata "state"), and with
  weights, inputs and targets by a formula (formula.py) what it gives in float64: the outputs in
  training, the loss, each parameter's gradient by its norm and by its product with further numbers
  of the formula, and the outputs in evaluation, after the one step of the running statistics.
  Metadata "salt" stands behind the names of the inputs' formulas (gradients, below).
"""
import os
import sys

import torch
from safetensors.torch import save_file

import formula
from networks import FULL, SMALL, outputs

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../tests/models/data")


def state_of(module):
    """Parameters and buffers as a file of safetensors has them: each tensor once."""
    seen, state = set(), {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            state[name] = tensor
    return state


def lines_of(module):
    return [f"{name} {str(tensor.dtype).removeprefix('torch.')} {'x'.join(map(str, tensor.shape))}"
            for name, tensor in state_of(module).items()]


def write_full():
    with open(os.path.join(FOLDER, "full.txt"), "w") as file:
        for name in sorted(FULL):
            with torch.device("meta"):
                module = FULL[name]()
            lines = lines_of(module)
            parameters = sum(p.numel() for p in module.parameters())
            digest = formula.fnv("".join(line + "\n" for line in sorted(lines)), 64)
            file.write(f"{name} {len(lines)} {parameters} {digest:016x}\n")


# An input of relu that is 0 but for rounding, or two that are equal in a window, make gradients
# that differ by a thousandth from machine to machine. Inputs are chosen so that gradients stay
# within STEADY where weights and inputs move by MOVED, several times float32's rounding.
MOVED, STEADY, TRIALS, SALTS = 3e-7, 3e-5, 3, 60


def gradients(name, salt, moved):
    """Module, inputs, results and loss after backward."""
    formula.SALT = salt
    module, inputs = SMALL[name]()
    module = module.double().train()
    move = lambda x: x * (1 + moved * torch.randn_like(x)) if x.is_floating_point() else x
    with torch.no_grad():
        for key, tensor in state_of(module).items():
            if tensor.is_floating_point():
                tensor.copy_(move(formula.weight(key, tensor.shape)))
    results = outputs(name, module, [move(x) for x in inputs])
    loss = sum(((y - formula.unit(f"target{i}", y.shape)) ** 2).mean()
               for i, y in enumerate(results))
    loss.backward()
    return module, inputs, results, loss


def grads_of(module):
    return [p.grad if p.grad is not None else torch.zeros_like(p) for p in module.parameters()]


def is_steady(name, salt):
    still = grads_of(gradients(name, salt, 0)[0])
    all_of_them = torch.stack([g.norm() for g in still]).norm()
    for _ in range(TRIALS):
        for a, b in zip(grads_of(gradients(name, salt, MOVED)[0]), still):
            if (a - b).norm() > STEADY * b.norm() + 1e-6 * all_of_them:
                return False
    return True


def write_case(name):
    salt = next((s for s in ("", *map(str, range(SALTS))) if is_steady(name, s)), None)
    if salt is None:
        sys.exit(f"{name}: no inputs whose gradients are steady")
    module, inputs, results, loss = gradients(name, salt, 0)
    metadata = {"state": "\n".join(lines_of(SMALL[name]()[0])), "salt": salt}
    figures = {f"output{i}": y.detach() for i, y in enumerate(results)}
    grads = grads_of(module)
    products = [(g.double() * formula.unit(key + ".gradient", g.shape)).sum()
                for (key, _), g in zip(module.named_parameters(), grads)]
    figures |= {"loss": loss.detach(), "norms": torch.stack([g.norm() for g in grads]),
                "products": torch.stack(products)}
    module.eval()
    with torch.no_grad():
        for i, y in enumerate(outputs(name, module, inputs)):
            figures[f"evaluated{i}"] = y
    figures = {key: value.contiguous().clone() for key, value in figures.items()}
    save_file(figures, os.path.join(FOLDER, name + ".safetensors"), metadata)
    print(f"{name}: loss {float(loss)}, {len(lines_of(module))} tensors, salt '{salt}'", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    os.makedirs(FOLDER, exist_ok=True)
    cases = sys.argv[1:] or sorted(SMALL)
    if not sys.argv[1:]:
        write_full()
    for case in cases:
        write_case(case)
