#include "backends/cuda/compile/FactorProvider.h"

#include "dialects/weft/ir/Weft.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

class FactorProvider : public compiler::Provider {
public:
  StringRef name() const override {
    return "cuda.factor";
  }

  compiler::ClaimAnswer match(Operation *op, compiler::MathMode) const override {
    if (isa<ir::SolveTriangularOp>(op))
      return compiler::ClaimRefusal{"no-factorization",
                                    "the device has no triangular solver of its own: it multiplies "
                                    "by the inverse, whose blocks double in size"};
    if (isa<ir::CholeskyOp, ir::LuOp>(op))
      return compiler::ClaimRefusal{"no-factorization",
                                    "the device has no factorizations of its own: a few kernels a "
                                    "column compute them, for small matrices"};
    return compiler::NotMine{};
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeFactorProvider() {
  return std::make_unique<FactorProvider>();
}

} // namespace weft::backends::cuda
