#!/usr/bin/env bash
# Builds an extension against an installed Weft, with clang++ alone, and runs it. Also: how to build
# them by hand.
# Usage: test.sh pass|kernel_pass|fusion_rule|gemm|planner|replaced_op|op|rules|kernel|twice|distributed|allocator TREE FOLDER_OF_SOURCES WRITE_FLAGS
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

# ones FILE SHAPE ELEMENTS: an .npy file of float32 ones.
ones() {
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }" >"$1"
  for ((i = 0; i < $3; ++i)); do printf '\x00\x00\x80\x3f'; done >>"$1"
}

# make_ops: mine_dialect.{h,cpp}.inc and mine_ops.{h,cpp}.inc of mine.td.
make_ops() {
  for what in dialect:decls:h dialect:defs:cpp op:decls:h op:defs:cpp; do
    IFS=: read -r kind form end <<<"$what"
    only=-dialect=mine
    [[ $kind == op ]] && only=--op-include-regex='^mine\.'
    /usr/lib/llvm-22/bin/mlir-tblgen -gen-$kind-$form "$only" -I prefix/include/weft -I /usr/lib/llvm-22/include \
      "$sources/mine.td" -o "mine_${kind/op/ops}.$end.inc"
  done
}

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
  # Its name may be written where passes are.
  expect "weft.abs" "$(prefix/bin/weft-opt --weft-plugin=./abs_pass.so --weft-insert=after:import:mine-abs --weft-phase=import "$sources/model.mlir")"
  ! grep -q weft.sqrt <<<"$out" || fail "weft.sqrt is still there: $out"
  # The dump of the phase has it, too.
  WEFT_PLUGINS=./abs_pass.so WEFT_DUMP_DIR=dump ./program >/dev/null
  grep -rq weft.abs dump/ || fail "no dump shows weft.abs"
  ;;
kernel_pass)
  clang++-22 -O2 "$sources/plugin.cpp" $(plugin) -o fast_tanh.so
  clang++-22 -O1 "$sources/program.cpp" $(weft) -o program
  expect "0.761594" "$(./program)"
  expect "0.777778" "$(WEFT_PLUGINS=./fast_tanh.so ./program)"
  # A cache knows programs with the pass from those without.
  export WEFT_CACHE_DIR=$work/cache
  expect "0.761594" "$(./program)"
  for run in compiled kept; do expect "0.777778" "$(WEFT_PLUGINS=./fast_tanh.so ./program)"; done
  ones x.npy 20, 20
  prefix/bin/weft-compile "$sources/model.mlir" --emit=exe -o model
  expect "0.76159" "$(./model --input x.npy)"
  WEFT_PLUGINS=./fast_tanh.so prefix/bin/weft-compile "$sources/model.mlir" --emit=exe -o model
  expect "0.77777" "$(./model --input x.npy)"
  # The dump of the stage has it.
  WEFT_PLUGINS=./fast_tanh.so WEFT_DUMP_DIR=dump ./program >/dev/null
  loops=$(find dump/kernels -name "*loops*.mlir") && [[ -n $loops ]] || fail "no dump of loops"
  ! grep -q math.tanh $loops || fail "a kernel still has math.tanh"
  ;;
gemm)
  clang-22 -O2 -Wall -fPIC -c "$sources/gemm.c" -o gemm.o
  clang++-22 -O2 $(pkg-config --cflags weft-plugin) -c "$sources/entry.cpp" -o entry.o
  ar rcs libmine_gemm.a entry.o gemm.o
  clang++-22 -O2 "$sources/plugin.cpp" libmine_gemm.a $(plugin) -o gemm.so
  clang++-22 -O1 "$sources/program.cpp" $(weft) -o program
  export MINE_GEMM_COUNT=1
  none() { ! grep -q mine_gemm <<<"$1" || fail "the library was called: $1"; }
  # In memory: results are right, its calls are counted, a refusal has its reason.
  none "$(./program 2>&1)"
  out=$(WEFT_PLUGINS=./gemm.so ./program traced 2>&1) || fail "$out"
  expect "right" "$out"
  expect "mine_gemm: 1 call(s)" "$out"
  expect "gemm-shape: mine.gemm takes two matrices as they lie" "$out"
  # A cache knows programs that call it from those that do not.
  export WEFT_CACHE_DIR=$work/cache
  none "$(./program 2>&1)"
  for run in compiled kept; do expect "mine_gemm: 1 call(s)" "$(WEFT_PLUGINS=./gemm.so ./program 2>&1)"; done
  # Ahead of time: the executable holds the library, and needs neither plugin nor Weft.
  ones x.npy "2, 3" 6
  ones w.npy "3, 2" 6
  compile() { prefix/bin/weft-compile "$sources/model.mlir" "$@" 2>&1; }
  compile --emit=exe -o plain >/dev/null
  none "$(./plain --input x.npy --input w.npy 2>&1)"
  export WEFT_PLUGINS=$work/gemm.so
  compile --emit=exe -o model >/dev/null || fail "the model does not link"
  compile --emit=so -o libmodel.so >/dev/null || fail "the model does not link as a library"
  compile --emit=obj -o model.o >/dev/null
  expect "$work/libmine_gemm.a" "$(cat model.h)"
  expect "mine.gemm" "$(prefix/bin/weft-opt --weft-phase=..claim "$sources/model.mlir")"
  mv libmine_gemm.a elsewhere.a
  expect "calls 'mine.gemm', but the file $work/libmine_gemm.a" "$(compile --emit=exe -o none)"
  unset WEFT_PLUGINS
  rm gemm.so
  out=$(./model --input x.npy --input w.npy 2>&1) || fail "$out"
  expect "-3" "$out"
  expect "mine_gemm: 1 call(s)" "$out"
  ! readelf -d model | grep -Eq 'LLVM|MLIR|weft' || fail "the executable needs a compiler"
  ones x.npy "6, 5" 30
  out=$(./traced --input x.npy 2>&1) || fail "$out"
  expect "mine_gemm: 1 call(s)" "$out"
  expect "6" "$out"
  ;;
planner)
  clang++-22 -O2 "$sources/plugin.cpp" $(plugin) -o planner.so
  clang++-22 -O1 "$sources/program.cpp" $(weft) -o program
  export MINE_PLANNER_COUNT=1
  losses=$(./program 2>&1)
  out=$(WEFT_PLUGINS=./planner.so ./program 2>log) || fail "$out"
  [[ $out == "$losses" ]] || fail "other losses: $out instead of $losses"
  expect "mine-room: placed" "$(cat log)"
  ones x.npy "64, 64" 4096
  arena() { prefix/bin/weft-compile "$sources/model.mlir" --emit=plan 2>/dev/null | grep -o 'plan.arena : !plan.buffer<[0-9]*' | grep -o '[0-9]*$'; }
  own=$(arena)
  prefix/bin/weft-compile "$sources/model.mlir" --emit=exe -o own
  export WEFT_PLUGINS=./planner.so
  (($(arena) > own)) || fail "the arena has no room between values"
  prefix/bin/weft-compile "$sources/model.mlir" --emit=exe -o model 2>log
  expect "mine-room: placed" "$(cat log)"
  for program in own model; do ./$program --input x.npy --output $program.npy; done
  cmp own.npy model.npy || fail "other values"
  ;;
fusion_rule)
  clang++-22 -O1 "$sources/plugin.cpp" $(plugin) -o small.so
  clang++-22 -O1 "$sources/program.cpp" $(weft) -o program
  expect "1 kernel(s)" "$(./program)"
  out=$(WEFT_PLUGINS=./small.so ./program)
  expect "4 kernel(s)" "$out"
  expect "x mine-small: the kernel would have more than 2 ops" "$out"
  [[ $(./program | head -1) == $(head -1 <<<"$out") ]] || fail "other values: $out"
  ;;
replaced_op)
  clang++-22 -O1 "$sources/plugin.cpp" $(plugin) -o steep.so
  clang++-22 -O1 "$sources/program.cpp" $(weft) -o program
  for backend in cpu reference; do
    export WEFT_BACKEND=$backend
    expect "0.841345 1.083315" "$(./program)"
    expect "0.845796 1.067780" "$(WEFT_PLUGINS=./steep.so ./program)"
  done
  ;;
op)
  make_ops
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
rules)
  make_ops
  clang++-22 -O1 -I. "$sources/plugin.cpp" "$sources/rules.cpp" $(plugin) -o mine.so
  clang++-22 "$sources/program.cpp" $(weft) -o program
  out=$(./program ./mine.so) || fail "$out"
  expect "[[3., 2., 1.]] 5.0010" "$out"
  statements=$(prefix/bin/weft-opt --weft-plugin=./mine.so --weft-print-statements "$sources/model.mlir" 2>&1)
  expect "(a -b+4) -> (a b)" "$statements"
  expect "(a b) -> (a), b reduced" "$statements"
  expect "mine.mirror" "$(prefix/bin/weft-opt --weft-plugin=./mine.so --weft-phase=..fuse "$sources/model.mlir")"
  ;;
kernel)
  clang-22 -std=c11 -Wall -O2 -shared -fPIC -Iprefix/include/weft "$sources/sort.c" -o sort.so
  # Headers of Weft's warn of nothing.
  clang++-22 -Wall -Wextra -Werror "$sources/program.cpp" $(weft) -o program
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
