#include "benchmarks/overhead/contexts.h"

#include "benchmarks/common/report.h"
#include "compiler/backend/Backend.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/MLIRContext.h"

namespace weft::benchmarks {

double seconds_per_context(int rounds) {
  auto backend = compiler::findBackend("cpu");
  if (!backend.ok())
    throw std::runtime_error(std::string(backend.status().message()));
  std::vector<double> times;
  for (int round = 0; round <= rounds; ++round) {
    double start = now();
    {
      mlir::DialectRegistry registry;
      registry.insert<ir::WeftDialect>();
      (*backend)->registerDialects(registry);
      mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
      context.loadAllAvailableDialects();
    }
    if (round > 0)
      times.push_back(now() - start);
  }
  return median(times);
}

} // namespace weft::benchmarks
