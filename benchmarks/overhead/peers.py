"""PyTorch's side of the suite `overhead`: the training step of recurrent.cpp, eager.

Speaks the protocol of benchmarks/common/contestant.h.
"""
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../common"))
from serve import serve

LENGTH, BATCH, HIDDEN, CLASSES = 50, 16, 128, 64


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def loss(self, inputs, targets):
        output, _ = self.lstm(self.embedding(inputs))
        return F.cross_entropy(self.head(output).reshape(-1, CLASSES), targets.reshape(-1))


def lstm_step():
    torch.manual_seed(1)
    net = Net()
    # The fused implementation is the fastest that PyTorch has on the CPU.
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    inputs, targets = torch.randint(CLASSES, (2, BATCH, LENGTH))

    def step():
        loss = net.loss(inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    serve(lambda case: lstm_step() if case == "lstm_step" else None,
          int(os.environ.get("WEFT_NUM_THREADS", "2")))
