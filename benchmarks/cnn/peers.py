"""The peers' side of the suite `cnn`: the networks of networks.cpp and the cases of cases.cpp by name.

Usage: peers.py eager|compile|onnx. Speaks the protocol of benchmarks/common/contestant.h. `onnx`: what PyTorch exports, on
ONNX Runtime; it has no training.
"""
import io
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../common"))
from serve import serve

CLASSES, IMAGE, SMALL_IMAGE = 1000, 224, 64
THREADS = int(os.environ.get("WEFT_NUM_THREADS", "2"))


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


class Fire(nn.Module):
    def __init__(self, inputs, narrow, outputs):
        super().__init__()
        self.squeeze, self.one = nn.Conv2d(inputs, narrow, 1), nn.Conv2d(narrow, outputs, 1)
        self.three = nn.Conv2d(narrow, outputs, 3, padding=1)

    def forward(self, x):
        y = F.relu(self.squeeze(x), inplace=True)
        return torch.cat((F.relu(self.one(y), inplace=True), F.relu(self.three(y), inplace=True)), 1)


class WeightedResidual(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride, expansion):
        super().__init__()
        inner = inputs * expansion
        self.expand = conv_norm(inputs, inner, 1, 1, nn.SiLU)
        self.depthwise = conv_norm(inner, inner, kernel, stride, nn.SiLU, inner)
        self.narrow, self.weigh = nn.Conv2d(inner, inputs // 4, 1), nn.Conv2d(inputs // 4, inner, 1)
        self.project = conv_norm(inner, outputs, 1, 1, None)
        self.adds = inputs == outputs and stride == 1

    def forward(self, x):
        y = self.depthwise(self.expand(x))
        y = self.project(y * torch.sigmoid(self.weigh(F.silu(self.narrow(y.mean((2, 3), keepdim=True))))))
        return x + y if self.adds else y


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


def squeezenet():
    halve = nn.MaxPool2d(3, 2)
    layers, inputs = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(inplace=True), halve], 64
    for width in (1, 1, 2, 2, 3, 3, 4, 4):
        if (inputs, width) in ((128, 2), (256, 3)):
            layers.append(halve)
        layers.append(Fire(inputs, 16 * width, 64 * width))
        inputs = 128 * width
    return nn.Sequential(*layers, nn.Conv2d(inputs, CLASSES, 1), nn.ReLU(inplace=True), MeanOfPixels())


def efficientnet():
    layers, inputs = [conv_norm(3, 32, 3, 2, nn.SiLU)], 32
    for expansion, outputs, kernel, blocks, stride in ((1, 16, 3, 1, 1), (6, 24, 3, 2, 2), (6, 40, 5, 2, 2), (6, 80, 3, 3, 2)):
        for i in range(blocks):
            layers.append(WeightedResidual(inputs, outputs, kernel, stride if i == 0 else 1, expansion))
            inputs = outputs
    return nn.Sequential(*layers, conv_norm(inputs, 320, 1, 1, nn.SiLU), MeanOfPixels(), nn.Linear(320, CLASSES))


def onnx_inference(net, images):
    import onnxruntime
    file = io.BytesIO()
    torch.onnx.export(net, (images,), file, dynamo=False, input_names=["images"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    given = {"images": images.numpy()}
    return lambda: session.run(None, given)


def make_case(mode, name):
    network, kind, batch = name.split("_")
    torch.manual_seed(1)
    net = {"resnet18": resnet18, "mobilenet": mobilenet, "squeezenet": squeezenet, "efficientnet": efficientnet}[network]()
    pixels = SMALL_IMAGE if network == "efficientnet" else IMAGE
    images = torch.rand(int(batch), 3, pixels, pixels)
    if kind == "inference":
        net.eval()
        if mode == "onnx":
            return onnx_inference(net, images)
        forward = torch.compile(net) if mode == "compile" else net

        def infer():
            with torch.no_grad():
                forward(images)
        return infer
    if mode == "onnx":
        return None
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


if __name__ == "__main__":
    serve(lambda name: make_case(sys.argv[1], name), THREADS)
