#!/usr/bin/env python3
"""Writes compile_commands.json, by which clangd and other tools know how each file is compiled.

Usage: tools/compile_commands.py [BAZEL TARGET PATTERN ...]    default: //...
Headers that are generated are there once the targets are built.
"""
import json
import os
import subprocess
import sys


def commands(actions, folder, external):
    """One entry a source file: the first action that compiles it.

    Paths lead from the folder, but for those of `external/`, which lies elsewhere.
    """
    entries = {}
    for action in actions:
        arguments = [os.path.join(external, word.removeprefix("external/"))
                     if word.startswith("external/") else word for word in action["arguments"]]
        source = arguments[arguments.index("-c") + 1]
        if source.endswith((".cpp", ".c")) and not os.path.isabs(source):
            entry = {"directory": folder, "file": source, "arguments": arguments}
            entries.setdefault(source, entry)
    return [entries[source] for source in sorted(entries)]


def main():
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    targets = " ".join(sys.argv[1:] or ["//..."])

    def bazel(*words):
        done = subprocess.run(["bazel", *words], cwd=folder, check=True, stdout=subprocess.PIPE)
        return done.stdout

    base = bazel("info", "output_base").decode().strip()
    found = bazel("aquery", f'mnemonic("CppCompile", set({targets}))', "--output=jsonproto")
    entries = commands(json.loads(found).get("actions", []), folder, os.path.join(base, "external"))
    with open(os.path.join(folder, "compile_commands.json"), "w") as out:
        json.dump(entries, out, indent=1)
    print(f"compile_commands.json: {len(entries)} files")


if __name__ == "__main__":
    main()
