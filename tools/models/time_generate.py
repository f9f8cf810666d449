#!/usr/bin/env python3
"""How fast examples/generate makes tokens, beside transformers with its cache, in turn.

    tools/models/time_generate.py [ROUNDS [LENGTH [THREADS]]]

GPT-2 of 124 million random parameters, one text, greedily. A round runs one, then the other, on the
same weights. Prints the fastest step of each over all rounds (of transformers the model's call and
the choice alone), the time that reading the weights' bytes takes at the machine's bandwidth (a sum
over a tensor of that size), and what is said of each round. Needs what check_generate.py needs.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROUNDS, LENGTH, THREADS = (int(x) for x in (sys.argv[1:] + ["3", "100", "2"][len(sys.argv) - 1:]))
os.environ["OMP_NUM_THREADS"] = os.environ["WEFT_NUM_THREADS"] = str(THREADS)

import torch
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from check_generate import TOKENIZERS, TOOL

PROMPT = "Weft is a C++ tensor library"


def theirs(model, ids):
    """The fastest step, and all of them."""
    cache, each = None, []
    with torch.no_grad():
        while len(each) <= LENGTH:
            began = time.perf_counter()
            out = model(ids, past_key_values=cache, use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
            ids.item()
            each.append(time.perf_counter() - began)
    return min(each[1:]), sum(each[1:])  # the first reads the prompt


def ours(folder):
    command = [TOOL, "--model", folder, "--length", str(LENGTH), "--temperature", "0", "--ids",
               "--ignore-end", "--prompt", PROMPT]
    err = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    whole, fastest = re.search(r"texts?: ([\d.]+) s, [\d.]+ ms each, ([\d.]+) ms the fastest", err).groups()
    return float(fastest) / 1000, float(whole)


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    path = os.path.join(TOKENIZERS, "gpt2.json")
    ids = torch.tensor([Tokenizer.from_file(path).encode(PROMPT).ids])
    rounds = {"weft": [], "transformers": [], "bytes": []}
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        shutil.copy(path, os.path.join(folder, "tokenizer.json"))
        for _ in range(ROUNDS):
            rounds["weft"].append(ours(folder))
            rounds["transformers"].append(theirs(model, ids))
            for _ in range(10):
                began = time.perf_counter()
                weights.sum()
                rounds["bytes"].append((time.perf_counter() - began, 0))
    fastest = {name: min(x[0] for x in each) for name, each in rounds.items()}
    print(json.dumps({
        "threads": THREADS, "tokens": LENGTH,
        "fastest_step_ms": {name: round(1000 * x, 1) for name, x in fastest.items()},
        "tokens_per_second": {name: [round(LENGTH / x[1], 1) for x in rounds[name]]
                              for name in ("weft", "transformers")},
        "ratio_of_fastest": round(fastest["transformers"] / fastest["weft"], 2),
        "share_of_bytes": round(fastest["bytes"] / fastest["weft"], 2),
        "gigabytes_per_second": round(4 * weights.numel() / fastest["bytes"] / 1e9, 1)}))


main()
