// The layers of a recorded model: what each computes and holds, read off its ops and the names of
// the parameters that they use.
#pragma once

#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"

namespace weft::tools {

// The ops that use the parameters of one module, with the elementwise ones and those that move
// elements behind them; or an op without parameters that does more than these, as pooling.
struct Layer {
  std::string name;         // the module's, "layer1.0.conv1"; an op's, "max_pool2d"
  std::string output;       // the type of its last result, "2x64x56x56xf32"
  int64_t parameters = 0;   // trained elements that no layer before it has
  int64_t weight_bytes = 0; // of these, and of buffers
  int64_t output_bytes = 0; // of its last result
  double operations = 0;    // scalar ones, by the records of the ops
};

struct LayerTable {
  std::vector<Layer> layers;
  std::vector<std::string> outputs; // types of the whole's results

  // With a row of sums.
  void print(std::ostream &stream) const;
};

// Of a module that weft::trace made in evaluation: its parameters are constants with their names.
// The module is the same afterwards. buffers: names of those that are not trained.
LayerTable describeLayers(mlir::ModuleOp module, const std::set<std::string> &buffers);

} // namespace weft::tools
