#!/usr/bin/env python3
"""Each function of frontend/ops has one row in frontend/ops/autocast.inc, and no row names another.

Usage: autocast_table_test.py autocast.inc elementwise.inc SOURCE...
"""
import re
import sys


def main():
    table, generated, *sources = [open(path).read() for path in sys.argv[1:]]
    rows = re.findall(r"^WEFT_(?:LOWER|FLOAT32|AS_GIVEN)\((\w+)\)$", table, re.MULTILINE)
    # What errors call a function is what opens its session: by a literal there, or handed on to
    # the helpers of elementwise.cpp and classify.cpp.
    named = set()
    for source in sources:
        named |= set(re.findall(r'Session session\("(\w+)"', source))
        named |= set(re.findall(r'\b(?:binary|compare|logical|bitwise|shift)\((?:emit_|Comparison::)\w+, "(\w+)"', source))
        named |= set(re.findall(r'against_infinity\("(\w+)"', source))
    elementwise = set(re.findall(r"^WEFT_(?:UNARY|BINARY)\((\w+),", generated, re.MULTILINE))
    wrong = []
    for name in sorted(named - set(rows)):
        wrong.append(f"'{name}' has no row in frontend/ops/autocast.inc: give it one, WEFT_AS_GIVEN"
                     f"({name}) where it computes well in 16 bits what it is given")
    for name in sorted(set(rows) - named - elementwise):
        wrong.append(f"the row of '{name}' is of no function of frontend/ops")
    for name in sorted({name for name in rows if rows.count(name) > 1}):
        wrong.append(f"'{name}' has several rows")
    if len(named) < 100 or not elementwise:
        wrong.append(f"only {len(named)} functions and {len(elementwise)} generated ones were found")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
