#!/usr/bin/env bash
# Several ranks print the losses of one process, in each way, and the same ones each time.
# Usage: spirals_test.sh SPIRALS TENSOR_PARALLEL LAUNCH
set -euo pipefail
spirals=$(realpath "$1") tensor_parallel=$(realpath "$2") launch=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WEFT_NUM_THREADS=1 WEFT_CACHE_DIR=$work

# compare RANKS ALONE PROGRAM [ARGUMENT]: what so many ranks of the program print beside one process.
compare() {
  local ranks=$1 alone=$2 several again
  several=$(timeout 120 "$launch" -n "$ranks" "${@:3}" | sed 's/^\[0\] //')
  paste -d ' ' <(echo "$alone") <(echo "$several") | awk -v lines="$(wc -l <<<"$alone")" '
    { d = $4 - $8; if (d < 0) d = -d; if (NF != 8 || d > 2e-4 * $4 + 1e-5) bad = 1 }
    END { exit bad || NR != lines }' || { echo "$ranks ranks of ${*:3}: $several"; echo "alone: $alone"; exit 1; }
  again=$(timeout 120 "$launch" -n "$ranks" "${@:3}" | sed 's/^\[0\] //')
  [[ $several == "$again" ]] || { echo "not the same again: $several / $again"; exit 1; }
}

alone=$("$spirals")
grep -q "^epoch 12  loss 0" <<<"$alone" || { echo "it did not learn: $alone"; exit 1; }
for mode in replicas shards layers; do
  for ranks in 2 3; do
    compare "$ranks" "$alone" "$spirals" "$mode"
  done
done
alone=$("$tensor_parallel")
awk 'NR == 1 { first = $4 } { last = $4 } END { exit !(last < 0.9 * first) }' <<<"$alone" || { echo "it did not learn: $alone"; exit 1; }
for ranks in 2 4; do
  compare "$ranks" "$alone" "$tensor_parallel"
done
# Of a training that is saved and goes on on other ranks, or on none.
for ranks in 1 2 4; do
  rm -f "$work/state"
  timeout 120 "$launch" -n 4 "$tensor_parallel" "$work/state" 30 | sed 's/^\[0\] //' >"$work/first"
  [[ $(wc -l <"$work/first") == 3 ]] || { echo "the first half: $(cat "$work/first")"; exit 1; }
  rest=$(timeout 120 "$launch" -n "$ranks" "$tensor_parallel" "$work/state" | sed 's/^\[0\] //')
  paste -d ' ' <(echo "$alone") <(cat "$work/first"; echo "$rest") | awk '
    { d = $4 - $8; if (d < 0) d = -d; if (NF != 8 || d > 2e-4 * $4 + 1e-5) bad = 1 }
    END { exit bad || NR != 6 }' || { echo "saved by 4, loaded by $ranks: $rest"; echo "alone: $alone"; exit 1; }
done
