#!/bin/bash
# Runs the example, checks what it learned, and that the README shows this very program.
# Usage: quickstart_test.sh PROGRAM SOURCE README
set -euo pipefail
export WEFT_CACHE_DIR=off WEFT_NUM_THREADS=1
output=$("$1")
echo "$output"
[ "$(wc -l <<<"$output")" = 5 ]
tail -1 <<<"$output" | awk '{ exit !($1 < 0.02) }' || { echo "the last loss is too high"; exit 1; }
diff "$2" <(awk '/^```cpp$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$3") ||
  { echo "the README shows another program"; exit 1; }
