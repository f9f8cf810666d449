#!/usr/bin/env bash
# Builds the toy backend against an installed Weft, with clang++ alone; runs a program and Weft's
# conformance suite on it.
# Usage: test.sh TREE FOLDER_OF_SOURCES WRITE_FLAGS CONFORMANCE
set -euo pipefail
tree=$(realpath "$1") sources=$(realpath "$2") write_flags=$(realpath "$3") conformance=$(realpath -s "$4")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WEFT_CACHE_DIR=off PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
cp -RLs "$tree" "$work/prefix"
"$write_flags" "$work/prefix" tree
cd "$work"
fail() { echo "$1"; exit 1; }

lines=$(cat "$sources"/toy_*.{h,cpp} | wc -l)
((lines <= 1200)) || fail "the backend has $lines lines; it must have 1,200 at most"

# How it is built by hand: CONTRIBUTING.md, "a backend".
clang++-22 -O1 -Wall "$sources"/toy_*.cpp -I"$sources" $(pkg-config --cflags --libs weft-plugin) -o toy.so
clang++-22 -O1 "$sources/program.cpp" $(pkg-config --cflags --libs weft) -o program

export WEFT_PLUGINS=$work/toy.so
out=$(./program toy.safetensors) || fail "$out"
echo "$out"
says() { grep -q "$1" <<<"$out" || fail "the program does not say: $1"; }
! grep -q "^step:" <<<"$out" || fail "an op of the network's step did not run on the device"
says "^sums:.*no-kernel(weft.cumsum)"
says "^mixed: .*cpu:0.*toy:0.*to(device)"
says "^index: .*9"
says "^memory: .*toy:0"
says "^backend: .*of kind toy"
says "^new tensors on cpu:0"
# The same where each op is run at once, and tensors are made there from the start.
out=$(WEFT_DEVICE=toy WEFT_EAGER=1 ./program toy.safetensors) || fail "$out"
says "^new tensors on toy:0"

# The suite runs on the device's own memory. It refuses nothing, and so passes without a table of
# refusals. With one that says otherwise it does not. A run takes the third of the ops that its
# turn says: the backend is an example, which evaluates what Weft itself tests.
third=()
[[ ${WEFT_CONFORMANCE-} == [012] ]] && third=(GTEST_TOTAL_SHARDS=3 "GTEST_SHARD_INDEX=$WEFT_CONFORMANCE")
env "${third[@]}" "$conformance" --gtest_filter='*/toy_*:-*/toy_unclaimed_*' --gtest_brief=1
echo 'toy | add | int8 | not true' >refusals.txt
# (That run's report must not become this test's: it lists a failure that is expected.)
! out=$(env -u XML_OUTPUT_FILE WEFT_REFUSALS=refusals.txt "$conformance" --gtest_filter='*/toy_add' 2>&1) || fail "a table that is not true passes: $out"
grep -q "add in int8 is not refused any more" <<<"$out" || fail "$out"
