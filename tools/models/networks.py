"""What make_figures.py compares: full models for names and shapes, small ones for values.

FULL: by the registry's name. SMALL: by the case's name in tests/models/cases.cpp, which makes the
same sizes: a function that gives the module and its inputs.
"""
import torch
import torchvision
from torch import nn
from torch.nn import functional as F
from torchvision import models as tv
from torchvision.models import convnext, densenet, efficientnet, mobilenetv2, mobilenetv3, resnet
from torchvision.models import shufflenetv2, squeezenet, vgg, vision_transformer
import transformers as hf

from formula import indices, unit


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
            nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(i, o))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, i // 2, 2, stride=2)
        self.conv = DoubleConv(i, o)

    def forward(self, x, skip):
        x = self.up(x)
        rows, columns = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([skip, x], 1))


class OutConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    """Ronneberger et al. 2015 with padding and batch norm, under the names of the most used
    PyTorch implementation (github.com/milesial/Pytorch-UNet)."""

    def __init__(self, channels=3, classes=2, width=64, depth=4):
        super().__init__()
        self.depth = depth
        self.inc = DoubleConv(channels, width)
        for d in range(depth):
            setattr(self, f"down{d + 1}", Down(width << d, width << (d + 1)))
        for d in range(depth):
            at = depth - d
            setattr(self, f"up{d + 1}", Up(width << at, width << (at - 1)))
        self.outc = OutConv(width, classes)

    def forward(self, x):
        seen = [self.inc(x)]
        for d in range(self.depth):
            seen.append(getattr(self, f"down{d + 1}")(seen[-1]))
        x = seen.pop()
        for d in range(self.depth):
            x = getattr(self, f"up{d + 1}")(x, seen.pop())
        return self.outc(x)


class Vae(nn.Module):
    """Kingma and Welling 2014, one hidden layer on each side."""

    def __init__(self, inputs=784, hidden=400, latent=20):
        super().__init__()
        self.up, self.mean = nn.Linear(inputs, hidden), nn.Linear(hidden, latent)
        self.spread, self.down = nn.Linear(hidden, latent), nn.Linear(latent, hidden)
        self.out = nn.Linear(hidden, inputs)

    def forward(self, x, noise):
        h = F.silu(self.up(x))
        mean, spread = self.mean(h), self.spread(h)
        z = mean + noise * torch.exp(0.5 * spread)
        return self.out(F.silu(self.down(z))), mean, spread


def llama(**sizes):
    return hf.LlamaForCausalLM(hf.LlamaConfig(attn_implementation="eager", **sizes))


def gpt2(**sizes):
    return hf.GPT2LMHeadModel(hf.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                            attn_implementation="eager", **sizes))


def bert(**sizes):
    return hf.BertModel(hf.BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                                      attn_implementation="eager", **sizes))


FULL = {name: getattr(tv, name) for name in (
    "alexnet", "vgg11", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "squeezenet1_0",
    "squeezenet1_1", "densenet121", "densenet169", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0",
    "mnasnet0_5", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small",
    "efficientnet_b0", "convnext_tiny", "vit_b_16")}
FULL |= {
    "mlp_3x8192": lambda: torchvision.ops.MLP(8192, [8192] * 3),
    "gpt2": gpt2,
    "tinyllama": lambda: llama(vocab_size=32000, hidden_size=2048, intermediate_size=5632,
                               num_hidden_layers=22, num_attention_heads=32,
                               num_key_value_heads=4, rms_norm_eps=1e-5,
                               tie_word_embeddings=False),
    "bert_base": bert,
    "unet": UNet,
    "vae": Vae,
}


def images(size, batch=3):
    return [unit("input0", (batch, 3, size, size))]


def small_alexnet():
    m = tv.AlexNet(num_classes=10, dropout=0)
    m.classifier[1], m.classifier[4] = nn.Linear(9216, 48), nn.Linear(48, 48)
    m.classifier[6] = nn.Linear(48, 10)
    return m, images(80, 2)


def small_vgg(batch_norm):
    stages = [16, "M", 24, "M", 32, 32, "M", 40, 40, "M"]
    m = vgg.VGG(vgg.make_layers(stages, batch_norm=batch_norm), 10, init_weights=False, dropout=0)
    m.classifier[0], m.classifier[3] = nn.Linear(40 * 49, 48), nn.Linear(48, 48)
    m.classifier[6] = nn.Linear(48, 10)
    return m, images(32)


def small_mobilenet_v2():
    rows = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 2]]
    return mobilenetv2.MobileNetV2(10, inverted_residual_setting=rows, dropout=0), images(32)


def small_mobilenet_v3():
    row = lambda *c: mobilenetv3.InvertedResidualConfig(*c, 1, 1.0)
    rows = [row(16, 3, 16, 16, True, "RE", 2), row(16, 3, 64, 24, False, "RE", 1),
            row(24, 5, 72, 24, True, "HS", 1), row(24, 5, 88, 40, True, "HS", 2)]
    return mobilenetv3.MobileNetV3(rows, 64, 10, dropout=0), images(32)


def small_efficientnet():
    row = lambda *c: efficientnet.MBConvConfig(*c, 1.0, 1.0)
    rows = [row(1, 3, 1, 32, 16, 1), row(6, 3, 2, 16, 24, 2), row(6, 5, 2, 24, 40, 1)]
    return efficientnet.EfficientNet(rows, 0.0, stochastic_depth_prob=0, num_classes=10,
                                     last_channel=128), images(32)


def small_convnext():
    row = convnext.CNBlockConfig
    rows = [row(16, 32, 1), row(32, 48, 2), row(48, None, 1)]
    return convnext.ConvNeXt(rows, 0.0, num_classes=10), images(48, 2)


def small_mnasnet():
    m = tv.MNASNet(0.5, 10, dropout=0)
    stem, stages, last = m.layers[:8], m.layers[8:10], m.layers[14:]
    last[0] = nn.Conv2d(24, 1280, 1, bias=False)
    m.layers = nn.Sequential(*stem, *stages, *last)
    return m, images(32)


def small_densenet():
    return densenet.DenseNet(8, (2, 3, 2), 16, bn_size=2, num_classes=10), images(64)


SMALL = {
    "alexnet": small_alexnet,
    "vgg": lambda: small_vgg(False),
    "vgg_bn": lambda: small_vgg(True),
    "resnet_basic": lambda: (resnet.ResNet(resnet.BasicBlock, [2, 1, 1, 1], 10), images(64)),
    "resnet_bottleneck": lambda: (resnet.ResNet(resnet.Bottleneck, [1, 2, 1, 1], 10), images(64)),
    "squeezenet1_0": lambda: (squeezenet.SqueezeNet("1_0", 10, dropout=0), images(48, 2)),
    "squeezenet1_1": lambda: (squeezenet.SqueezeNet("1_1", 10, dropout=0), images(48, 2)),
    "densenet": small_densenet,
    "shufflenet_v2": lambda: (shufflenetv2.ShuffleNetV2([2, 3, 2], [24, 48, 96, 192, 256], 10),
                              images(64)),
    "mnasnet": small_mnasnet,
    "mobilenet_v2": small_mobilenet_v2,
    "mobilenet_v3": small_mobilenet_v3,
    "efficientnet": small_efficientnet,
    "convnext": small_convnext,
    "vit": lambda: (vision_transformer.VisionTransformer(32, 8, 2, 4, 48, 96, num_classes=10),
                    images(32)),
    "mlp": lambda: (torchvision.ops.MLP(24, [32, 32, 16]), [unit("input0", (3, 24))]),
    "gpt2": lambda: (gpt2(vocab_size=61, n_positions=16, n_embd=32, n_layer=2, n_head=4),
                     [indices("input0", (2, 12), 61)]),
    "llama": lambda: (llama(vocab_size=61, hidden_size=32, intermediate_size=56,
                            num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                            tie_word_embeddings=False), [indices("input0", (2, 12), 61)]),
    "bert": lambda: (bert(vocab_size=61, hidden_size=32, num_hidden_layers=2,
                          num_attention_heads=4, intermediate_size=64,
                          max_position_embeddings=16),
                     [indices("input0", (2, 12), 61), indices("input1", (2, 12), 2),
                      (torch.arange(12)[None] < torch.tensor([[12], [7]])).long()]),
    "unet": lambda: (UNet(3, 2, 8, 2), images(22, 2)),
    "vae": lambda: (Vae(20, 16, 4), [unit("input0", (3, 20)), unit("input1", (3, 4))]),
}


def outputs(name, module, inputs):
    """The tensors that a module gives, in order."""
    if name == "bert":
        out = module(input_ids=inputs[0], token_type_ids=inputs[1], attention_mask=inputs[2])
        return [out.last_hidden_state, out.pooler_output]
    out = module(*inputs)
    if hasattr(out, "logits"):
        return [out.logits]
    return list(out) if isinstance(out, tuple) else [out]
