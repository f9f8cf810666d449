"""The peers' side of the suite `memory`: as worker.cpp, by PyTorch.

Usage: peers.py CASE
"""
import os
import sys

import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tools/models"))


def status_bytes(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))


KINDS = {"gpt2": "language model", "tinyllama": "language model"}
OTHERS = {"bert_base", "mlp_3x8192", "unet", "vae"}


def main():
    name, mode, batch = sys.argv[1].rsplit("_", 2)
    batch = int(batch)
    torch.set_num_threads(int(os.environ.get("WEFT_NUM_THREADS", "2")))
    import networks  # torchvision and transformers belong to the process before the model
    linear = torch.nn.Linear(64, 64)
    linear(torch.ones(64, 64)).sum().backward()
    before = status_bytes("VmRSS")
    torch.manual_seed(1)
    model = networks.FULL[name]().train()
    if name in ("bert_base", "gpt2", "tinyllama"):
        inputs = [torch.randint(30000, (batch, 64))]
    elif name == "mlp_3x8192":
        inputs = [torch.rand(batch, 8192)]
    elif name == "vae":
        inputs = [torch.rand(batch, 784), torch.rand(batch, 20)]
    else:
        inputs = [torch.rand(batch, 3, 224, 224)]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        out = networks.outputs({"bert_base": "x"}.get(name, name), model, inputs)
        out = out[0] if not isinstance(out[0], str) else None
        if name == "bert_base":
            out = model(input_ids=inputs[0]).last_hidden_state
        if name in KINDS:
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), inputs[0].reshape(-1))
        elif name in OTHERS:
            loss = (out * out).mean()
        else:
            loss = F.cross_entropy(out, torch.zeros(batch, dtype=torch.long))
        loss.backward()
        optimizer.step()
        del out
        loss.item()
    print(status_bytes("VmHWM") - before)


if __name__ == "__main__":
    main()
