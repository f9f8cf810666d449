#!/bin/bash
# What weft::jit and weft::trace refuse when a program is compiled: the reason is said once, and no
# further reason of theirs hides it.
set -euo pipefail
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

failed=0
# refuses ERROR < CODE: the first error of the code has this text, and at most one is jit.h's.
refuses() {
  { echo '#include "weft/jit.h"'; echo '#include "weft/tensor.h"'; cat; } >"$root/user.cpp"
  if clang++-22 -std=c++20 -fsyntax-only "-I$root" "$root/user.cpp" >"$root/errors" 2>&1; then
    echo "compiles: $1"
    failed=1
  fi
  first=$(grep -m 1 'error:' "$root/errors" || true)
  reasons=$(grep -c 'error: static assertion failed' "$root/errors" || true)
  if [[ "$first" != *"$1"* || $reasons -gt 1 ]]; then
    echo "expected first: $1"
    grep 'error:' "$root/errors" || true
    failed=1
  fi
}

refuses 'no member named' <<'CODE'
auto f = weft::jit([](const auto &x) { return x.no_such_function(); });
CODE
refuses 'the function must declare its arguments, or take up to 8 tensors' <<'CODE'
auto f = weft::jit(3);
CODE
refuses 'the function must declare its arguments, or take up to 8 tensors' <<'CODE'
#include <concepts>
weft::Program p = weft::trace([](std::integral auto n, const weft::Tensor &x) { return x; },
                              std::vector<weft::Tensor>());
CODE
refuses 'needs a function visit_tensors' <<'CODE'
struct Unknown {};
weft::Tensor g(const weft::Tensor &x, Unknown) { return x; }
weft::Tensor y = weft::jit(g)(weft::Tensor(), Unknown());
CODE
exit $failed
