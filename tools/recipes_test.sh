#!/bin/sh
# The code blocks of a page that name a file stand in it, line by line. What a unary op of
# CONTRIBUTING.md needs is measured by //tools/recipes:unary_op_test.
# Usage: recipes_test.sh PAGE FILE...
set -eu
recipes=$1
shift
awk -v files="$*" -v page="$recipes" '
  function check(    n, names, i, found, text, line) {
    n = split(files, names, " ")
    for (i = 1; i <= n; ++i)
      if (names[i] == path) {
        found = 1
        text = ""
        while ((getline line < path) > 0) text = text line "\n"
        close(path)
        if (index(text, block) == 0) { print "the block of " page " that names " path " is not what stands there:\n" block; failed = 1 }
      }
    if (!found) { print "the test does not get " path ", which " page " names: add it to its data"; failed = 1 }
    ++blocks
  }
  /^```/ {
    if (inside) { if (path != "") check(); inside = 0 }
    else { inside = 1; path = $2; block = "" }
    next
  }
  inside { block = block $0 "\n" }
  END {
    if (blocks < 3) { print "only " blocks + 0 " blocks of " page " name a file"; failed = 1 }
    exit failed
  }
' "$recipes"
