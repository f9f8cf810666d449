// Compiles the public headers alone, and the spellings that a user would try first.
#include "weft/weft.h"
using namespace weft;
namespace {
[[maybe_unused]] Tensor f(const Tensor &a, const Tensor &b) {
  Tensor c = a + 1.0;
  c += 2;
  a[1] = b;
  a[1] = 3.0;
  return -(c * b - 2 / a) == 3;
}
[[maybe_unused]] auto g() {
  return weft::jit([](const Tensor &x) { return x + 1; })(weft::zeros({1, 2}));
}
[[maybe_unused]] Program h() {
  return weft::trace([](const Tensor &x) { return x + 1; }, {weft::zeros({1, 2})});
}
[[maybe_unused]] auto s(Tensor x) {
  return x.sum(0) + x.sum({0, 1}) + x.sum() + tensor({1.f, 2.f}) + tensor({{1.f}, {2.f}}) +
         x.index({1, Slice(), None, Ellipsis});
}
} // namespace
