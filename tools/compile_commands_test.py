#!/usr/bin/env python3
"""What compile_commands.py makes of Bazel's actions. Usage: compile_commands_test.py"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compile_commands


class Commands(unittest.TestCase):
    def test_each_source_has_one_entry_whose_paths_lead_somewhere(self):
        def action(source, output):
            return {"arguments": ["clang", "-isystem", "external/llvm/include", "-iquote", ".",
                                  "-c", source, "-o", output]}
        entries = compile_commands.commands(
            [action("b/x.cpp", "1.o"), action("a/y.cpp", "2.o"), action("b/x.cpp", "3.o"),
             action("external/tools/z.cpp", "4.o"), action("a/y.h", "5.o")],
            "/weft", "/base/external")
        self.assertEqual([entry["file"] for entry in entries], ["a/y.cpp", "b/x.cpp"])
        self.assertEqual(entries[1], {
            "directory": "/weft", "file": "b/x.cpp",
            "arguments": ["clang", "-isystem", "/base/external/llvm/include", "-iquote", ".",
                          "-c", "b/x.cpp", "-o", "1.o"]})


if __name__ == "__main__":
    unittest.main()
