#!/usr/bin/env python3
"""The full models of the registry, compiled ahead of time, against PyTorch in evaluation.

    tools/models/check_full.py [NAME...]

For each: PyTorch's initial weights, constants moved, as a safetensors file; `weft-models export
--weights`, which loads it strictly; the executable on a batch of 2 random inputs, and the relative
distance of its outputs from PyTorch's in float32. Needs what make_figures.py needs, and
bazel-bin/tools/weft-models. Minutes, and gigabytes in a folder of its own that it removes: no part
of the tests.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from safetensors.torch import save_file

from make_figures import state_of
from networks import FULL, outputs

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
TOOL = os.path.join(ROOT, "bazel-bin/tools/weft-models")
TOLERANCE = 1e-4
# Which inputs a model takes; all others are images of three channels, 224 x 224.
TEXT = {"gpt2": 50257, "tinyllama": 32000, "bert_base": 30522}
VECTORS = {"mlp_3x8192": [(8192,)], "vae": [(784,), (20,)], "unet": [(3, 256, 256)]}
# 4.4 GB of weights, which an export has in memory more than four times: only where it is named.
BY_NAME_ONLY = {"tinyllama"}


def inputs_of(name):
    if name in TEXT:
        return [torch.randint(TEXT[name], (2, 64))]
    return [torch.randn(2, *shape) for shape in VECTORS.get(name, [(3, 224, 224)])]


def call(name, module, inputs):
    if name == "bert_base":
        out = module(input_ids=inputs[0])
        return [out.last_hidden_state, out.pooler_output]
    return outputs(name, module, inputs)


def check(name, folder):
    torch.manual_seed(1)
    module, inputs = FULL[name]().eval(), inputs_of(name)
    with torch.no_grad():
        for tensor in state_of(module).values():
            # Zeros and ones hide what stands behind them.
            if tensor.is_floating_point() and tensor.std(correction=0) == 0:
                tensor.add_(0.2 * torch.rand_like(tensor))
    path = lambda file: os.path.join(folder, file)
    save_file({key: tensor.detach().contiguous() for key, tensor in state_of(module).items()},
              path("weights.safetensors"))
    with torch.no_grad():
        expected = call(name, module, inputs)
    began = time.time()
    subprocess.run([TOOL, "export", name, "--batch", "2", "--weights",
                    path("weights.safetensors"), "--weights-beside", "--emit=exe", "-o",
                    path("model")], check=True, stderr=subprocess.DEVNULL)
    compiled = time.time() - began
    command = [path("model"), "--weights", path("model.safetensors")]
    for i, tensor in enumerate(inputs):
        np.save(path(f"in{i}.npy"), tensor.numpy())
        command += ["--input", path(f"in{i}.npy")]
    for i in range(len(expected)):
        command += ["--output", path(f"out{i}.npy")]
    subprocess.run(command, check=True, cwd=folder)
    distances = []
    for i, tensor in enumerate(expected):
        given = torch.from_numpy(np.load(path(f"out{i}.npy"))).double().reshape(tensor.shape)
        distances.append(float((given - tensor).norm() / tensor.norm().clamp_min(1e-30)))
    print(json.dumps({"model": name, "distance": max(distances),
                      "compile_seconds": round(compiled, 2)}), flush=True)
    return max(distances) < TOLERANCE


if __name__ == "__main__":
    names = sys.argv[1:] or [name for name in sorted(FULL) if name not in BY_NAME_ONLY]
    failed = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            if not check(name, folder):
                failed.append(name)
    sys.exit(f"over {TOLERANCE}: {', '.join(failed)}" if failed else 0)
