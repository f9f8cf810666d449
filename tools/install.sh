#!/usr/bin/env bash
# Builds Weft and installs what programs and extensions outside this tree are built against.
# Usage: tools/install.sh [--sealed] PREFIX
#   PREFIX/include/weft   headers: weft/weft.h for programs; compiler/, dialects/, runtime/
#                         (generated files and op records included) for extensions
#   PREFIX/lib            libweft.so; libweft_distributed.so, for programs of several ranks; weft/:
#                         what models compiled ahead of time are linked with; pkgconfig/: weft,
#                         weft-distributed, weft-plugin, weft-compiler (docs/installed.md)
#   PREFIX/bin            weft-opt, weft-run, weft-compile, weft-models, weft-prof
# --sealed: libweft.so has LLVM inside and hidden: for programs that embed Weft beside another LLVM.
#           It takes plugins of C kernels only; there are no tools, no headers of the compiler and no
#           libweft_distributed.so beside it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=//tools/install:tree
options=()
[[ ${1-} == --sealed ]] && { target=//tools/install:sealed_tree; options=(--config=sealed); shift; }
if (($# != 1)) || [[ $1 == -* ]]; then
  sed -n '3,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
mkdir -p "$1" || exit 1
prefix=$(cd "$1" && pwd)
cd "$here"
tools/setup.sh
bazel build "${options[@]}" "$target"
tree=bazel-bin/tools/install/${target##*:}
# Headers of an older version would be found beside the new ones.
rm -rf "$prefix/include/weft" "$prefix/lib/weft"
cp -R --no-preserve=mode "$tree/." "$prefix/"
[[ -d $prefix/bin && -f $prefix/bin/weft-opt ]] && chmod +x "$prefix"/bin/weft-*
tools/install/write_flags.sh "$prefix" "${target##*:}"
echo "installed in $prefix; build programs with: clang++-22 -std=c++20 program.cpp \$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs weft)"
