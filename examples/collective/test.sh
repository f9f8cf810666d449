#!/usr/bin/env bash
# Builds the layer against the headers of the interface, with clang++ alone, and runs every
# collective and some faults over it.
# Usage: test.sh SOURCE WEFT_COLLECTIVE_H WEFT_VERSION_H LAUNCH RANK_PROGRAM
set -uo pipefail
source=$(realpath "$1") launch=$(realpath "$4") program=$(realpath "$5")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/include/runtime/abi"
cp -L "$2" "$3" "$work/include/runtime/abi"
cd "$work"
fail() { echo "$1"; exit 1; }
run() { timeout -k 5 60 "$launch" -n "$1" "$program" --plugin ./socket.so socket "${@:2}" 2>&1; }

(($(wc -l <"$source") < 300)) || fail "the layer has 300 lines or more"
# How it is built by hand: CONTRIBUTING.md, "a collective layer".
clang++-22 -std=c++20 -O2 -Wall -Wextra -Werror -shared -fPIC -Iinclude "$source" -o socket.so || fail "it does not build"

for ranks in 1 2 3 5; do
  out=$(run "$ranks" check) || fail "$ranks ranks: $out"
  (($(grep -c "all right" <<<"$out") == ranks)) || fail "$ranks ranks: $out"
done

# A rank that ends, and one that calls something else, are named.
out=$(run 3 exit)
grep -q "error: rank 1 has gone" <<<"$out" || fail "a rank that ends: $out"
out=$(run 3 differ)
# Rank 1 differs from both others: the job's error is what rank 0 or rank 2 saw of it.
calls='all_reduce\((sum|max), float32 x 50000\) as number 2 at train.cpp:11'
grep -qE "error: the ranks' calls in group 'world' differ: rank (0 calls $calls, rank 1|1 calls $calls, rank 2) calls $calls" <<<"$out" || fail "calls that differ: $out"

# What is no plugin is refused.
out=$("$program" --plugin ./none.so socket check)
grep -q "cannot load the plugin ./none.so" <<<"$out" || fail "$out"
echo passed
