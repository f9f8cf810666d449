"""PyTorch's models on what runs them elsewhere: ONNX Runtime, OpenVINO, ncnn and JAX.

A model is converted first, which no suite times. What that gives is a function that makes it ready,
which the suite `compile` times, and gives another one: it runs a batch and returns the model's
first result. Each is held against PyTorch's before it counts.
"""
import io
import os
import subprocess
import sys
import tempfile

import numpy
import torch

import models
from serve import Absent

THREADS = int(os.environ.get("WEFT_NUM_THREADS", "2"))
FARTHEST = 1e-3  # from PyTorch's numbers, relative to the largest of them


class FirstResult(torch.nn.Module):
    """Exporters want tensors."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return models.first_of(self.model(*inputs))


def avoid_unexportable():
    """Ops without an export, where others compute the same: attention's fast path; the search of
    Hugging Face's masks for several texts in a row."""
    torch.backends.mha.set_fastpath_enabled(False)
    masks = sys.modules.get("transformers.masking_utils")
    if masks:
        masks.find_packed_sequence_indices = lambda position_ids: None


def exported(module, inputs):
    file = io.BytesIO()
    torch.onnx.export(module, tuple(inputs), file, dynamo=False,
                      input_names=[f"input{i}" for i in range(len(inputs))])
    return file


def on_onnxruntime(module, batches):
    import onnxruntime
    file = exported(module, batches[0]).getvalue()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS

    def load():
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        given = [{name: x.numpy() for name, x in zip(names, batch)} for batch in batches]
        return lambda i: session.run(None, given[i])[0]

    return load


def on_openvino(module, batches):
    import openvino
    file = exported(module, batches[0])
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32",
                              "PERFORMANCE_HINT": "LATENCY"})
    given = [[x.numpy() for x in batch] for batch in batches]

    def load():
        file.seek(0)
        request = core.compile_model(core.read_model(file), "CPU").create_infer_request()
        return lambda i: request.infer(given[i])[0]

    return load


def suit_ncnn(model):
    """Writes GPT-2 as pnnx and ncnn can have it: they have no causal attention as one op, take a
    weight that is used twice for an input, and have another cube of a negative number, of which
    Hugging Face makes its GELU."""
    model.set_attn_implementation("eager")
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    for block in model.transformer.h:
        block.mlp.act = torch.nn.GELU(approximate="tanh")


def on_ncnn(module, batches):
    """Through pnnx, which reads TorchScript. A sample at a time: ncnn's arrays have no batch."""
    import ncnn
    import pnnx
    if type(module.model).__name__ == "GPT2LMHeadModel":
        suit_ncnn(module.model)
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "network")
    torch.jit.trace(module, tuple(batches[0]), check_trace=False).save(path + ".pt")
    types = {torch.float32: "f32", torch.int64: "i64"}
    shapes = ",".join(f"[{','.join(map(str, x.shape))}]{types[x.dtype]}" for x in batches[0])
    done = subprocess.run([pnnx.EXEC_PATH, path + ".pt", "inputshape=" + shapes, "fp16=0"],
                          cwd=folder.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    try:
        with open(path + ".ncnn.param") as file:
            layers = [line.split()[0] for line in file.readlines()[2:]]
    except FileNotFoundError:
        raise Absent(f"pnnx converts it to nothing: {done.stdout.splitlines()[-1:]}")
    # Those of ncnn have plain names.
    left = sorted({layer for layer in layers if "." in layer or "::" in layer})
    if left:
        raise Absent(f"pnnx leaves ops that ncnn does not have: {', '.join(left)}")
    narrow = {torch.int64: numpy.int32, torch.float32: numpy.float32}
    given = [[x[0].numpy().astype(narrow[x.dtype]) for x in batch] for batch in batches]

    def load():
        net = ncnn.Net()
        net.opt.num_threads = THREADS
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic",
                       "use_bf16_storage"):
            setattr(net.opt, option, False)
        if net.load_param(path + ".ncnn.param") or net.load_model(path + ".ncnn.bin"):
            raise Absent(f"ncnn does not load what pnnx makes in {folder.name}")
        inputs, result = net.input_names(), net.output_names()[0]

        def run(i):
            extractor = net.create_extractor()
            for name, x in zip(inputs, given[i]):
                extractor.input(name, ncnn.Mat(x))  # in place
            error, out = extractor.extract(result)
            if error:
                raise Absent(f"ncnn gives error {error} when it runs")
            return numpy.array(out)[None]

        return run

    return load


def on_jax(module, batches):
    import jax
    import jax_graph
    jax.clear_caches()  # of the case before
    graph = jax_graph.Graph(module, batches[0])
    parameters, others = graph.state(module)
    given = [[jax_graph.arrays(x) for x in batch] for batch in batches]

    def load():
        forward = jax.jit(lambda *state: graph(*state)[0])
        return lambda i: forward(parameters, others, given[i]).block_until_ready()

    return load


KINDS = {"onnx": on_onnxruntime, "openvino": on_openvino, "ncnn": on_ncnn, "jax": on_jax}


def converted(kind, case):
    """What makes the case's model ready for its two batches, and a check of what that gives."""
    model = models.make(case).eval()
    models.make_distinct(model)
    module = FirstResult(model)
    avoid_unexportable()
    batches = [models.example(case), models.example(case)]
    with torch.no_grad():
        expected = module(*batches[0]).numpy()
        load = KINDS[kind](module, batches)

    def check(run):
        result = numpy.asarray(run(0))
        if result.shape != expected.shape:
            raise Absent(f"its result is of {result.shape}, PyTorch's of {expected.shape}")
        far = abs(result - expected).max() / abs(expected).max()
        if not far <= FARTHEST:
            raise Absent(f"its result is {far:.2g} off PyTorch's")

    return load, check
