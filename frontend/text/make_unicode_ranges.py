#!/usr/bin/env python3
"""Writes unicode_ranges.inc, the letters (L*) and numbers (N*) of Unicode, from Python's tables.

    frontend/text/make_unicode_ranges.py > frontend/text/unicode_ranges.inc
"""
import sys
import unicodedata


def ranges(group):
    found, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code))[0] == group
        if inside and start is None:
            start = code
        if not inside and start is not None:
            found.append((start, code - 1))
            start = None
    return found


print(f"// Unicode {unicodedata.unidata_version}, made by make_unicode_ranges.py.")
for name, group in (("kLetters", "L"), ("kNumbers", "N")):
    print(f"constexpr CodeRange {name}[] = {{")
    line = "   "
    for first, last in ranges(group):
        one = f" {{0x{first:x}, 0x{last:x}}},"
        if len(line + one) > 100:
            print(line)
            line = "   "
        line += one
    print(line + "\n};")
