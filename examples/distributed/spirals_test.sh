#!/usr/bin/env bash
# Several ranks print the losses of one process, in both ways, and the same ones each time.
# Usage: spirals_test.sh SPIRALS LAUNCH
set -euo pipefail
spirals=$(realpath "$1") launch=$(realpath "$2")
export WEFT_NUM_THREADS=1
alone=$("$spirals")
grep -q "^step 60  loss 0" <<<"$alone" || { echo "it did not learn: $alone"; exit 1; }
for mode in replicas shards; do
  for ranks in 2 3; do
    several=$(timeout 120 "$launch" -n "$ranks" "$spirals" "$mode" | sed 's/^\[0\] //')
    paste -d ' ' <(echo "$alone") <(echo "$several") | awk '
      { d = $4 - $8; if (d < 0) d = -d; if (NF != 8 || d > 2e-4 * $4 + 1e-5) bad = 1 }
      END { exit bad || NR != 6 }' || { echo "$mode of $ranks ranks: $several"; echo "alone: $alone"; exit 1; }
    again=$(timeout 120 "$launch" -n "$ranks" "$spirals" "$mode" | sed 's/^\[0\] //')
    [[ $several == "$again" ]] || { echo "not the same again: $several / $again"; exit 1; }
  done
done
