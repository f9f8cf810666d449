#!/bin/sh
# The code blocks of CONTRIBUTING.md that name a file stand in it, line by line. What a unary op
# needs is measured by //tools/recipes:unary_op_test.
# Usage: recipes_test.sh CONTRIBUTING.md FILE...
set -eu
recipes=$1
shift
awk -v files="$*" '
  function check(    n, names, i, found, text, line) {
    n = split(files, names, " ")
    for (i = 1; i <= n; ++i)
      if (names[i] == path) {
        found = 1
        text = ""
        while ((getline line < path) > 0) text = text line "\n"
        close(path)
        if (index(text, block) == 0) { print "the block of CONTRIBUTING.md that names " path " is not what stands there:\n" block; failed = 1 }
      }
    if (!found) { print "the test does not get " path ", which CONTRIBUTING.md names: add it to its data"; failed = 1 }
    ++blocks
  }
  /^```/ {
    if (inside) { if (path != "") check(); inside = 0 }
    else { inside = 1; path = $2; block = "" }
    next
  }
  inside { block = block $0 "\n" }
  END {
    if (blocks < 3) { print "only " blocks + 0 " blocks name a file: of an op, a pass and an allocator"; failed = 1 }
    exit failed
  }
' "$recipes"
