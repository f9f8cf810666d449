#!/usr/bin/env bash
# The sealed libweft.so: what it exports and needs, and that it works beside another LLVM in the
# process.
# Usage: sealed_test.sh TREE WRITE_FLAGS PROGRAM KERNELS
set -euo pipefail
tree=$(realpath "$1") write_flags=$(realpath "$2") program=$(realpath "$3") kernels=$(realpath "$4")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WEFT_CACHE_DIR=off
cp -RLs "$tree" "$work/prefix"
"$write_flags" "$work/prefix" sealed_tree
cd "$work"
fail() { echo "$1"; exit 1; }

library=prefix/lib/libweft.so
# Functions and data in weft::, their type information, tables and thunks; and the C ABI.
exported=$(nm -D --defined-only "$library" | awk '{print $NF}')
count=$(wc -l <<<"$exported")
others=$(grep -vE '^(weft_.*|_Z(N[KRO]*|TIN|TSN|TVN|TTN|GVN|GVZN|Thn[0-9]+_NK?|Tv0_n[0-9]+_NK?)4weft.*)$' <<<"$exported" || true)
[[ -z $others ]] || fail "it exports what is neither weft:: nor the C ABI:
$(head -20 <<<"$others" | c++filt)"
((count > 500)) || fail "it exports only $count symbols"
grep -q '^weft_register_kernel$' <<<"$exported" || fail "it does not export weft_register_kernel"
needed=$(readelf -d "$library" | grep NEEDED)
! grep -qE 'libLLVM|libMLIR' <<<"$needed" || fail "it needs another LLVM: $needed"
[[ ! -e prefix/include/weft/dialects ]] || fail "the compiler's headers are installed"

export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
clang++-22 "$program" $(pkg-config --cflags --libs weft) -ldl -o program
clang-22 -shared -fPIC -Iprefix/include/weft "$kernels" -o kernels.so
# What a plugin of passes exports; the rest of one does not matter here.
echo 'extern "C" int weft_plugin() { return 0; }' >passes.cpp
clang++-22 -shared -fPIC passes.cpp -o passes.so
! ldd program | grep -qE 'libLLVM|libMLIR' || fail "the program needs another LLVM"
out=$(./program /usr/lib/llvm-22/lib/libLLVM-22.so ./kernels.so ./passes.so) || fail "$out"
echo "$out"
grep -q "the plugin ./passes.so exports weft_plugin: it uses MLIR's C++ API, which this sealed Weft hides" <<<"$out" || fail "no reason"
echo "$count symbols, $(($(stat -Lc %s "$library") >> 20)) MB"
