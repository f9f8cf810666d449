#!/usr/bin/env bash
# What goes wrong on one rank of a training is one error on every rank, with rank, line and what to
# do, within ten seconds; started again, it goes on from its checkpoint as if nothing had been.
# Usage: fault_test.sh PROGRAM LAUNCH [REPEATS]
set -uo pipefail
program=$(realpath "$1") launch=$(realpath "$2") repeats=${3-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WEFT_NUM_THREADS=1 WEFT_CACHE_DIR=$work/cache
fail() { echo "$1"; [[ -f $work/out ]] && cat "$work/out"; exit 1; }

# The losses by step, each step once: what a step after a restart says last counts.
losses() { sed -n 's/^\[0\] step *\([0-9]*\)  loss \(.*\)$/\1 \2/p' "$1" | sort -sn -k1,1 | awk '{ l[$1] = $2 } END { for (i = 1; i <= 10; ++i) print i, l[i] }'; }
alike() { # but for the last digits: another number of ranks adds up in another order
  paste -d ' ' "$1" "$2" | awk '{ d = $2 - $4; if (d < 0) d = -d; if (NF != 4 || d > 1e-4 * ($2 + 0.01)) bad = 1 } END { exit bad || NR != 10 }'
}

mkdir "$work/none"
"$launch" -n 3 "$program" "$work/none" none 0 >"$work/out" 2>&1 || fail "it does not run at all"
losses "$work/out" >"$work/expected"

for ((repeat = 0; repeat < repeats; ++repeat)); do
  for fault in memory:1 disk:0 killed:2 error:1; do
    IFS=: read -r kind rank <<<"$fault"
    rm -rf "$work/folder" && mkdir "$work/folder"
    timeout 120 "$launch" -n 3 "$program" "$work/folder" "$kind" "$rank" 2>&1 |
      while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done >"$work/timed"
    cut -d ' ' -f 2- "$work/timed" >"$work/out"
    case $kind in
    memory) cause="out of memory|memory" ;;
    disk) cause="cannot be written|cannot write|File too large" ;;
    killed) cause="rank 2" ;;
    error) cause="something is wrong with the data" ;;
    esac
    for r in 0 1 2; do
      [[ $kind == killed && $r == 2 ]] && continue
      line=$(grep "^\[$r\] error: " "$work/out") || fail "$kind: rank $r says nothing"
      (($(wc -l <<<"$line") == 1)) || fail "$kind: rank $r says more than one thing"
      grep -qE "fault_program.cpp:[0-9]+" <<<"$line" || fail "$kind: rank $r names no line: $line"
      grep -qE "$cause" <<<"$line" || fail "$kind: rank $r does not say why: $line"
      [[ $r == "$rank" ]] || grep -q "rank $rank" <<<"$line" || fail "$kind: rank $r does not name rank $rank: $line"
    done
    # From what says that something is wrong to the last rank's error.
    took=$(awk '/error: |tools\/launch.sh: rank/ { if (!first) first = $1; if (/error: /) last = $1 } END { print (last > first ? last - first : 0) }' "$work/timed")
    awk -v t="$took" 'BEGIN { exit !(t <= 10) }' || fail "$kind: all ranks knew after $took s only"
    echo "$kind: all ranks know after $took s"
    rm -rf "$work/folder" && mkdir "$work/folder"
    timeout 120 "$launch" -n 3 --restarts 3 "$program" "$work/folder" "$kind" "$rank" >"$work/out" 2>&1 || fail "$kind: it did not end well"
    losses "$work/out" >"$work/found"
    cmp -s "$work/found" "$work/expected" || fail "$kind: not the losses of an undisturbed run: $(diff "$work/found" "$work/expected")"
  done
  # A rank that cannot come back is left out.
  rm -rf "$work/folder" && mkdir "$work/folder"
  timeout 120 "$launch" -n 3 --restarts 3 --least 2 "$program" "$work/folder" absent 2 >"$work/out" 2>&1 || fail "absent: it did not end well"
  grep -q "starting 2 ranks again" "$work/out" || fail "absent: not with fewer ranks"
  losses "$work/out" >"$work/found"
  alike "$work/found" "$work/expected" || fail "absent: other losses: $(diff "$work/found" "$work/expected")"
done
echo "all right"
