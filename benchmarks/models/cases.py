"""What the peers of the suites `infer`, `train` and `compile` do in a case, by the peer's mode.

eager, compile: PyTorch; bfloat16: eager training under its autocast; onnx, openvino, ncnn, jax:
PyTorch's models, converted (conversions.py), of which only JAX trains (jax_step.py).
"""
import torch

import char_gpt
import conversions
import models
from serve import DEVICE


def has(mode, suite, case):
    """Of all that a suite may ask for; what turns out to fail raises serve.Absent."""
    if suite == "infer":
        return models.has(case)
    if mode in conversions.KINDS and mode != "jax":
        return False
    return models.has(case) or case.startswith("char_gpt")


def prepared(mode, model):
    """What forward is called through."""
    if mode == "bfloat16":
        return torch.autocast(torch.device(DEVICE).type, torch.bfloat16)(model)
    return torch.compile(model) if mode == "compile" else model


def inference(mode, case):
    """What makes a model ready and gives what runs one of its two batches, and a check of that."""
    if mode in conversions.KINDS:
        return conversions.converted(mode, case)
    model = models.make(case).eval()
    batches = [models.example(case), models.example(case)]

    def load():
        forward = prepared(mode, model)
        return lambda i: forward(*batches[i])

    return load, lambda run: None


def training(mode, case):
    """A step, which waits for its loss, and a check of it."""
    family = char_gpt if case.startswith("char_gpt") else models
    model, inputs = family.make(case), family.example(case)
    if mode == "jax":
        import jax_step
        conversions.avoid_unexportable()
        optimizer = jax_step.ClippedAdamW if family is char_gpt else jax_step.Sgd
        return jax_step.step_of(family.Loss(case, model), inputs, optimizer,
                                family.step_of(case, model, model, inputs))
    step = family.step_of(case, model, prepared(mode, model), inputs)
    return lambda: step().item(), lambda: None
