"""PyTorch's side of the suite `memory`: what worker.cpp does in its mode `training`.

Usage: peers.py MODEL_BATCH. Prints the bytes that the process took above what it had before the
model was made, 0, and the seconds of the fastest step.
"""
import os
import sys
import time

import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tools/models"))

STEPS = 4
TEXTS = {"bert_base": 30522, "gpt2": 30000, "tinyllama": 30000}  # models of tokens below these
LENGTH = 64


def status_bytes(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))


def example(name, batch):
    if name in TEXTS:
        return [torch.randint(TEXTS[name], (batch, LENGTH))]
    if name == "mlp_3x8192":
        return [torch.rand(batch, 8192)]
    if name == "vae":
        return [torch.rand(batch, 784), torch.rand(batch, 20)]
    return [torch.rand(batch, 3, 224, 224)]


def loss_of(name, model, inputs):
    out = model(*inputs)
    if name in ("gpt2", "tinyllama"):
        return F.cross_entropy(out.logits.reshape(-1, out.logits.shape[-1]), inputs[0].reshape(-1))
    if name == "bert_base":
        out = out.last_hidden_state
    if name in ("bert_base", "mlp_3x8192", "unet", "vae"):
        out = out[0] if isinstance(out, tuple) else out
        return (out * out).mean()
    return F.cross_entropy(out, torch.zeros(len(out), dtype=torch.long))


def main():
    name, batch = sys.argv[1].rsplit("_", 1)
    torch.set_num_threads(int(os.environ.get("WEFT_NUM_THREADS", "2")))
    import networks  # what torchvision and transformers take belongs to the process

    torch.nn.Linear(64, 64)(torch.ones(64, 64)).sum().backward()
    before = status_bytes("VmRSS")
    torch.manual_seed(1)
    model = networks.FULL[name]().train()
    inputs = example(name, int(batch))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(name, model, inputs)
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
    print(status_bytes("VmHWM") - before, 0, min(seconds))


if __name__ == "__main__":
    main()
