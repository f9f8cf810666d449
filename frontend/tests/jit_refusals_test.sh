#!/bin/bash
# What weft::jit, weft::trace and modules refuse when a program is compiled: the reason is said
# once, and no further reason of theirs hides it.
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
# refuses ERROR < CODE: the first error of the code has this text, and at most one is the library's.
refuses() {
  {
    printf '#include "weft/%s"\n' jit.h tensor.h nn/linear.h nn/sequential.h
    cat
  } >"$root/user.cpp"
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
refuses 'keep what parameter() and buffer() return as an nn::Parameter' <<'CODE'
struct M : weft::nn::Module {
  weft::Tensor w = parameter("w", weft::ones({2}));
} m;
CODE
refuses 'keep what parameter() and buffer() return as an nn::Parameter' <<'CODE'
struct M : weft::nn::Module {
  weft::Tensor mean;
  M() { mean = buffer("mean", weft::ones({2})); }
};
CODE
refuses 'a layer of nn::Sequential is called as const' <<'CODE'
struct M : weft::nn::Module {
  weft::Tensor operator()(const weft::Tensor &x) { return x; }
};
weft::nn::Sequential s{M(), [](const weft::Tensor &x) { return x; }};
CODE
refuses 'a layer of nn::Sequential is called as const' <<'CODE'
weft::nn::Sequential s([n = 0](const weft::Tensor &x) mutable { return ++n, x; });
CODE

# What stands beside these compiles.
cat >"$root/user.cpp" <<'CODE'
#include "weft/nn/linear.h"
#include "weft/nn/sequential.h"
#include "weft/ops.h"
struct M : weft::nn::Module {
  weft::nn::Parameter w = parameter("w", weft::ones({2})), mean;
  std::vector<weft::Tensor> seen;
  M() {
    auto scale = parameter("scale", weft::ones({2}));
    mean = buffer("mean", weft::relu(parameter("shift", weft::ones({2}))));
    seen = {scale, w};
    seen.push_back(parameter("last", weft::ones({2})));
  }
  weft::Tensor held() const { return w; }
};
weft::nn::Sequential s(weft::nn::Linear(2, 2), weft::relu, [](const weft::Tensor &x) { return x; });
weft::Tensor read(M m) {
  weft::Tensor w = m.w;
  w = m.mean;
  M moved = std::move(m);
  return w;
}
CODE
if ! clang++-22 -std=c++20 -fsyntax-only "-I$root" "$root/user.cpp"; then
  echo "does not compile: what modules do with parameters"
  failed=1
fi
exit $failed
