#!/usr/bin/env bash
# Two ranks that share each batch train as one process does, dropout included: the same losses, but
# for the last digits; the same bits from run to run, and after a run that was cut off is resumed.
# Usage: ranks_test.sh CHAR_GPT LAUNCH
set -euo pipefail
char_gpt=$(realpath "$1") launch=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export WEFT_NUM_THREADS=1 WEFT_CACHE_DIR=$work/cache
for i in $(seq 200); do echo "line $i of a text that is $((i * i % 97)) and $((i * 31 % 89)) long"; done >text.txt
options=(--text text.txt --train-only --width 32 --heads 2 --layers 1 --context 32 --batch 4
  --validate-every 8 --checkpoint-every 8)
ranks() { timeout 120 "$launch" -n 2 "$char_gpt" --distributed "${options[@]}" "$@" >log 2>&1 || { cat log; exit 1; }; }
"$char_gpt" "${options[@]}" --steps 24 --out alone >/dev/null
ranks --steps 24 --out both
ranks --steps 24 --out again
cmp both/curve.csv again/curve.csv
paste -d , alone/curve.csv both/curve.csv | awk -F , '
  NR > 1 { d = $2 - $5; if (d < 0) d = -d; if (d > 1e-5 * $2) bad = 1; ++n }
  END { exit bad || n != 24 }' || { paste alone/curve.csv both/curve.csv; exit 1; }
# Cut off after its first checkpoint, if it is not through by then.
"$launch" -n 2 "$char_gpt" --distributed "${options[@]}" --steps 24 --out cut >log 2>&1 &
launcher=$!
while [[ ! -f cut/checkpoint.safetensors ]] && kill -0 $launcher 2>/dev/null; do sleep 0.02; done
kill -TERM $launcher 2>/dev/null || true
wait $launcher || true
ranks --resume --out cut
cmp both/curve.csv cut/curve.csv
