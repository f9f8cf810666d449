"""PyTorch's side of the suite `cnn`: the networks of networks.cpp and the cases of cases.cpp by name.

Usage: peers.py eager|compile. Speaks the protocol of benchmarks/common/contestant.h.
"""
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES, IMAGE = 1000, 224


def conv_norm(inputs, outputs, kernel, stride, activation, groups=1):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([activation(inplace=True)] if activation else []))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(conv_norm(inputs, outputs, 3, stride, nn.ReLU), conv_norm(outputs, outputs, 3, 1, None))
        self.skip = conv_norm(inputs, outputs, 1, stride, None) if inputs != outputs or stride != 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x), inplace=True)


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        inner = inputs * expansion
        layers = [conv_norm(inputs, inner, 1, 1, nn.ReLU6)] if expansion != 1 else []
        self.body = nn.Sequential(*layers, conv_norm(inner, inner, 3, stride, nn.ReLU6, inner), conv_norm(inner, outputs, 1, 1, None))
        self.adds = inputs == outputs and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


class MeanOfPixels(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def resnet18():
    layers, inputs = [conv_norm(3, 64, 7, 2, nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for outputs in (64, 128, 256, 512):
        layers += [Residual(inputs, outputs, 1 if inputs == outputs else 2), Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, MeanOfPixels(), nn.Linear(512, CLASSES))


def mobilenet():
    layers, inputs = [conv_norm(3, 32, 3, 2, nn.ReLU6)], 32
    for expansion, outputs, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                               (6, 320, 1, 1)):
        for i in range(blocks):
            layers.append(InvertedResidual(inputs, outputs, stride if i == 0 else 1, expansion))
            inputs = outputs
    return nn.Sequential(*layers, conv_norm(inputs, 1280, 1, 1, nn.ReLU6), MeanOfPixels(), nn.Linear(1280, CLASSES))


def make_case(mode, name):
    network, kind, batch = name.split("_")
    torch.manual_seed(1)
    net = {"resnet18": resnet18, "mobilenet": mobilenet}[network]()
    images = torch.rand(int(batch), 3, IMAGE, IMAGE)
    if kind == "inference":
        net.eval()
        forward = torch.compile(net) if mode == "compile" else net

        def infer():
            with torch.no_grad():
                forward(images)
        return infer
    classes = torch.randint(CLASSES, (int(batch),))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, foreach=True)
    forward = torch.compile(net) if mode == "compile" else net

    def step():
        loss = F.cross_entropy(forward(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    return step


def main():
    torch.set_num_threads(int(os.environ.get("WEFT_NUM_THREADS", "2")))
    work = None
    print("ready 0", flush=True)
    for line in sys.stdin:
        word, argument = line.split()
        start = time.perf_counter()
        if word == "case":
            work = make_case(sys.argv[1], argument)
            for _ in range(3):
                work()
            print("ready", time.perf_counter() - start, flush=True)
        else:
            for _ in range(int(argument)):
                work()
            print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
