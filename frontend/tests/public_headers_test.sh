#!/bin/bash
# No public header reaches MLIR, LLVM or abseil, and including all of them stays cheap.
set -euo pipefail
main="$1" # a file that includes weft/weft.h
shift
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# The layout that users see.
for header in "$@"; do
  case "$header" in
    */frontend/* | frontend/*) place="$root/weft/${header##*frontend/}" ;;
    *) place="$root/$header" ;;
  esac
  mkdir -p "$(dirname "$place")"
  cp -L "$header" "$place"
done
deps=$(clang++-22 -std=c++20 -M "-I$root" "$main") || {
  echo "does not compile"
  exit 1
}
if tr ' ' '\n' <<<"$deps" | grep -E '/(mlir|llvm|llvm-c|absl)/'; then
  echo "a public header includes one of the above"
  exit 1
fi
# A compiler's time goes with the lines it reads: 61,000 of them, most of the standard library's,
# take about 0.7 s. One MLIR header brings several times as many.
most=90000
lines=$(clang++-22 -std=c++20 -E -P "-I$root" "$main" | wc -l)
echo "including weft/weft.h brings $lines lines"
((lines < most))
