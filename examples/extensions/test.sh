#!/usr/bin/env bash
# Builds an extension against an installed Weft, with clang++ alone, and runs it. Also: how to build
# them by hand.
# Usage: test.sh pass|op|kernel|twice|distributed|allocator TREE FOLDER_OF_SOURCES WRITE_FLAGS
#   TREE: what tools/install.sh installs, as //tools/install:tree makes it
set -euo pipefail
name=$1 tree=$(realpath "$2") sources=$(realpath "$3") write_flags=$(realpath "$4")
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WEFT_CACHE_DIR=off PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
# The tree as tools/install.sh leaves it.
cp -RLs "$tree" "$work/prefix"
"$write_flags" "$work/prefix" tree
cd "$work"

fail() { echo "$name: $1"; exit 1; }
weft() { pkg-config --cflags --libs weft; }
plugin() { pkg-config --cflags --libs weft-plugin; }
expect() { grep -qF -- "$1" <<<"$2" || fail "expected '$1' in: $2"; }

for file in "$sources"/*; do
  (($(wc -l <"$file") < 100)) || fail "$file has 100 lines or more"
done

case $name in
pass)
  clang++-22 -O1 "$sources/plugin.cpp" $(plugin) -o abs_pass.so
  clang++-22 -O1 "$sources/program.cpp" $(pkg-config --cflags --libs weft-compiler) -o program
  # x * x overflows; the pass makes it |x|.
  expect "inf" "$(./program)"
  expect "e+30" "$(./program --register)"
  expect "e+30" "$(WEFT_PLUGINS=./abs_pass.so ./program)"
  expect "cannot load the plugin ./none.so" "$(WEFT_PLUGINS=./none.so ./program 2>&1)"
  out=$(prefix/bin/weft-opt --weft-plugin=./abs_pass.so --weft-phase=import..graph "$sources/model.mlir")
  expect "weft.abs" "$out"
  ! grep -q weft.sqrt <<<"$out" || fail "weft.sqrt is still there: $out"
  # The dump of the phase has it, too.
  WEFT_PLUGINS=./abs_pass.so WEFT_DUMP_DIR=dump ./program >/dev/null
  grep -rq weft.abs dump/ || fail "no dump shows weft.abs"
  ;;
op)
  include=prefix/include/weft
  for what in dialect:decls:h dialect:defs:cpp op:decls:h op:defs:cpp; do
    IFS=: read -r kind form end <<<"$what"
    only=-dialect=mine
    [[ $kind == op ]] && only=--op-include-regex='^mine\.'
    /usr/lib/llvm-22/bin/mlir-tblgen -gen-$kind-$form "$only" -I $include -I /usr/lib/llvm-22/include "$sources/mine.td" \
      -o "mine_${kind/op/ops}.$end.inc"
  done
  clang++-22 -O1 -I. "$sources/plugin.cpp" $(plugin) -o mine.so
  clang++-22 "$sources/program.cpp" $(weft) -o program
  for backend in cpu reference; do WEFT_BACKEND=$backend ./program ./mine.so || fail "the program failed on $backend"; done
  expect "1 kernel(s)" "$(./program ./mine.so)"
  cat >model.mlir <<'END'
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = mine.squash %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
END
  expect "mine.squash" "$(prefix/bin/weft-opt --weft-plugin=./mine.so --weft-phase=..fuse model.mlir)"
  # Compiled ahead of time, it is code like any other.
  WEFT_PLUGINS=./mine.so prefix/bin/weft-compile model.mlir --emit=exe -o model
  ./model --help >/dev/null
  ;;
kernel)
  clang-22 -std=c11 -Wall -O2 -shared -fPIC -Iprefix/include/weft "$sources/sort.c" -o sort.so
  clang++-22 "$sources/program.cpp" $(weft) -o program
  for backend in cpu reference; do WEFT_BACKEND=$backend ./program ./sort.so || fail "the program failed on $backend"; done
  WEFT_EAGER=1 ./program ./sort.so >/dev/null || fail "the program failed with WEFT_EAGER=1"
  ;;
twice)
  clang++-22 "$sources/program.cpp" $(weft) -o program
  mkdir dump
  out=$(./program dump)
  expect "minimum at 1" "$out"
  grep -q "func.func @main" dump/function.mlir && grep -q "weft" dump/gradient.mlir && [[ -s dump/hessian.mlirbc ]] || fail "no dumps"
  (($(grep -c 'weft\.' dump/gradient.mlir) > $(grep -c 'weft\.' dump/function.mlir))) || fail "the derivative has no more ops than the function"
  dump/hessian --help >/dev/null || fail "the executable does not run"
  ;;
distributed)
  # The program that the docs begin with.
  awk '/^```cpp/ { on = 1; next } /^```/ { exit } on' "$root/docs/distributed.md" >all.inc
  grep '^#include' all.inc >headers.inc
  grep -v '^#include' all.inc >loop.inc
  clang++-22 -I. "$sources/program.cpp" $(pkg-config --cflags --libs weft-distributed) -o program
  expect "rank 0 of 1 ranks" "$(./program)"
  expect "[1] rank 1 of 2 ranks" "$("$root/tools/launch.sh" -n 2 ./program)"
  # Nothing of it is in the library that all programs link.
  ! readelf -d prefix/lib/libweft.so | grep -q gloo || fail "libweft.so needs libgloo"
  ;;
allocator)
  clang++-22 "$sources/counting_allocator.cpp" $(weft) -labsl_status -labsl_statusor -labsl_strings -o program
  out=$(./program) || fail "$out"
  expect " allocations, " "$out"
  ;;
*) fail "unknown" ;;
esac
echo "$name: passed"
