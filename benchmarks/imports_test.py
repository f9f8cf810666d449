#!/usr/bin/env python3
"""Whether scripts of benchmarks/ and tools/models/ find what they import: no test runs them all.

Usage: imports_test.py README, that of the tree. A module is Python's own, one of PACKAGES, or a
file beside the script or in a folder that it, or a script that imports it, adds to sys.path, by an
expression of os, __file__ and here.
"""
import ast
import glob
import os
import sys

PACKAGES = {"torch", "torchvision", "transformers", "numpy", "onnx", "onnxruntime", "openvino",
            "jax", "ncnn", "pnnx", "safetensors", "tokenizers"}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name.split(".")[0]) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module.split(".")[0]


def added_folders(tree, path):
    """Of sys.path.insert(0, FOLDER) and sys.path[:0] = [FOLDER, ...]."""
    known = {"os": os, "__file__": path, "here": os.path.dirname(os.path.abspath(path))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "sys.path.insert":
            yield eval(ast.unparse(node.args[1]), known)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "sys.path[:0]":
            yield from eval(ast.unparse(node.value), known)


def main(readme):
    # A test's file is a link into the tree.
    root = os.path.dirname(os.path.realpath(readme))
    paths = [path for place in ("benchmarks/*", "benchmarks/*/*", "tools/models/*")
             for path in glob.glob(f"{root}/{place}.py")]
    trees, folders = {}, {}
    for path in paths:
        with open(path) as file:
            trees[path] = ast.parse(file.read(), path)
        added = map(os.path.realpath, added_folders(trees[path], path))
        folders[path] = {os.path.dirname(path), *added}
    # A module also finds what lies in the folders of a script that imports it.
    for _ in paths:
        for path, tree in trees.items():
            for _, name in imported(tree):
                for folder in folders[path]:
                    found = os.path.join(folder, name + ".py")
                    if found in folders:
                        folders[found] |= folders[path]
    lost, checked = [], 0
    for path, tree in trees.items():
        for line, name in imported(tree):
            checked += 1
            if name in sys.stdlib_module_names or name in PACKAGES:
                continue
            places = [os.path.join(folder, name + ".py") for folder in sorted(folders[path])]
            if not any(map(os.path.exists, places)):
                lost.append(f"{path}:{line}: no module {name}: there is none of {places}")
    print(f"{len(paths)} files, {checked} imports", *lost, sep="\n")
    return 1 if lost or checked < 50 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
