#!/bin/bash
# Runs the example, checks what it learned, and that the README shows this very program.
# Usage: quickstart_test.sh PROGRAM SOURCE README
set -euo pipefail
export WEFT_CACHE_DIR=off WEFT_NUM_THREADS=1
output=$(WEFT_EXPLAIN=1 "$1" 2>explain.txt)
echo "$output"
[ "$(wc -l <<<"$output")" = 5 ]
tail -1 <<<"$output" | awk '{ exit !($1 < 0.02) }' || { echo "the last loss is too high"; exit 1; }
diff "$2" <(awk '/^```cpp$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$3") ||
  { echo "the README shows another program"; exit 1; }
# "one program, compiled once": 500 steps of one miss, beside the one program that draws the layers'
# parameters, and no program for the loss that is printed.
[ "$(grep -c ' step ' explain.txt)" = 500 ] && [ "$(grep ' step ' explain.txt | grep -c MISS)" = 1 ] &&
  [ "$(grep -vc ' step ' explain.txt)" = 1 ] || { grep -v '| hit' explain.txt; echo "other programs ran than one a step"; exit 1; }
