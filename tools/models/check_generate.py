#!/usr/bin/env python3
"""examples/generate against Hugging Face's generate, greedily, on random models that it saved.

    tools/models/check_generate.py [CASE...]

For each case: a model of transformers with random weights (larger than at the start of a training,
so that the likeliest token is far from the next), saved whole or in shards beside a tokenizer of
frontend/text/test_data; bazel-bin/examples/generate/generate continues prompts of different lengths
together, transformers each alone. Needs torch and transformers, and the program built: no part of
the tests.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
TOOL = os.path.join(ROOT, "bazel-bin/examples/generate/generate")
TOKENIZERS = os.path.join(ROOT, "frontend/text/test_data")
LENGTH = 150
PROMPTS = ["The tensor", "a", "for (int i = 0; i < n; ++i) {", "Weft is a C++ tensor library whose " * 6,
           "Ünïcödé 日本 🙂"]


def gpt2(**more):
    return GPT2LMHeadModel(GPT2Config(vocab_size=500, n_positions=512, n_embd=96, n_layer=3, n_head=6,
                                      bos_token_id=0, eos_token_id=0, **more))


def llama(**more):
    return LlamaForCausalLM(LlamaConfig(vocab_size=600, hidden_size=96, intermediate_size=160,
                                        num_hidden_layers=3, num_attention_heads=6,
                                        max_position_embeddings=512, bos_token_id=1, eos_token_id=2,
                                        **more))


LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
CASES = {  # tokenizer, model, size of a shard
    "gpt2": ("gpt2", lambda: gpt2(), "5GB"),
    "gpt2_sharded": ("gpt2", lambda: gpt2(n_inner=100), "200KB"),
    "llama": ("llama2", lambda: llama(num_key_value_heads=6), "5GB"),
    "llama_grouped": ("llama2", lambda: llama(num_key_value_heads=2, tie_word_embeddings=True), "200KB"),
    "llama3": ("llama3", lambda: llama(num_key_value_heads=3, rope_parameters=LLAMA3), "5GB"),
}


def check(name, folder):
    torch.manual_seed(7)
    tokenizer_name, make, shard = CASES[name]
    model = make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter + 0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder, max_shard_size=shard)
    path = os.path.join(TOKENIZERS, tokenizer_name + ".json")
    shutil.copy(path, os.path.join(folder, "tokenizer.json"))
    tokenizer = Tokenizer.from_file(path)
    command = [TOOL, "--model", folder, "--length", str(LENGTH), "--temperature", "0", "--ids",
               "--ignore-end", "--chunk", "16"]
    for prompt in PROMPTS:
        command += ["--prompt", prompt]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr}")
    given = [[int(i) for i in line.split()] for line in done.stdout.splitlines()]
    same = 0
    for prompt, ours in zip(PROMPTS, given, strict=True):
        ids = torch.tensor([tokenizer.encode(prompt).ids])
        with torch.no_grad():
            theirs = model.generate(ids, max_new_tokens=LENGTH, min_new_tokens=LENGTH, do_sample=False,
                                    eos_token_id=None, pad_token_id=0)
        same += theirs[0, ids.shape[1]:].tolist() == ours
    programs = next(line for line in done.stderr.splitlines() if line.startswith("programs"))
    print(json.dumps({"case": name, "prompts": len(PROMPTS), "same": same,
                      "files": sum(f.endswith(".safetensors") for f in os.listdir(folder)),
                      "distinct": len(set(sum(given, []))), "programs": programs.split()[1]}), flush=True)
    return same == len(PROMPTS)


if __name__ == "__main__":
    failed = []
    for name in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            if not check(name, folder):
                failed.append(name)
    sys.exit("other tokens: " + ", ".join(failed) if failed else 0)
