"""The peers' side of the suites `infer` and `train`.

Usage: peers.py eager|compile|bfloat16|onnx|openvino infer|train. Speaks the protocol of
benchmarks/common/contestant.h. bfloat16: eager training under PyTorch's autocast; onnx, openvino:
what PyTorch exports, on ONNX Runtime or OpenVINO; they have no training.
"""
import io
import os
import sys
import warnings

import torch

warnings.filterwarnings("ignore")  # of exporters

here = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(here, "../common"), here]
import char_gpt
import models
from serve import serve

THREADS = int(os.environ.get("WEFT_NUM_THREADS", "2"))


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


def exported(model, inputs):
    avoid_unexportable()
    file = io.BytesIO()
    torch.onnx.export(FirstResult(model), tuple(inputs), file, dynamo=False,
                      input_names=[f"input{i}" for i in range(len(inputs))])
    return file


def on_onnxruntime(model, batches):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(exported(model, batches[0]).getvalue(), options,
                                           providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    given = [{name: x.numpy() for name, x in zip(names, batch)} for batch in batches]
    return lambda i: session.run(None, given[i])


def on_openvino(model, batches):
    import openvino
    file = exported(model, batches[0])
    file.seek(0)
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32",
                              "PERFORMANCE_HINT": "LATENCY"})
    request = core.compile_model(core.read_model(file), "CPU").create_infer_request()
    given = [[x.numpy() for x in batch] for batch in batches]
    return lambda i: request.infer(given[i])


def infer(mode, case):
    model = models.make(case).eval()
    batches = [models.example(case), models.example(case)]
    with torch.no_grad():
        if mode in ("onnx", "openvino"):
            run = (on_onnxruntime if mode == "onnx" else on_openvino)(model, batches)
        else:
            forward = torch.compile(model) if mode == "compile" else model
            run = lambda i: forward(*batches[i])
    turn = [0]

    def work():
        turn[0] += 1
        with torch.no_grad():
            run(turn[0] % 2)

    return work


def prepared(mode, model):
    """What forward is called through in training."""
    if mode == "bfloat16":
        return torch.autocast("cpu", torch.bfloat16)(model)
    return torch.compile(model) if mode == "compile" else model


def make(mode, suite, case):
    if case.startswith("char_gpt"):
        step = char_gpt.step_of(models.split(case)[1], lambda model: prepared(mode, model))
        return lambda: step().item()
    if not models.has(case):
        return None
    if suite == "infer":
        return infer(mode, case)
    model = models.make(case)
    step = models.step_of(case, model, prepared(mode, model), models.example(case))
    return lambda: step().item()


if __name__ == "__main__":
    serve(lambda case: make(sys.argv[1], sys.argv[2], case), THREADS)
