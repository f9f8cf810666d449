// Calls of every op of the weft dialect that tests run: the ops come from the dialect's registry,
// so that an op without cases fails the tests. Unary and binary elementwise ops get theirs from
// their records' rows in the op table; the others are listed, by name, in OpCases.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dialects/weft/reference/HostTensor.h"
#include "mlir/IR/MLIRContext.h"

namespace weft::tests {

enum class Values {
  Numbers,  // in [low, high], distinct where these are; none near 0
  Indices,  // 0 .. limit-1, in no order, with repeats
  Booleans, // true and false mixed
  State,    // a random generator's {key, counter}
  Listed,   // those of the list
  Dominant, // matrices whose diagonal is larger than the rest of a row: regular, and of the lower
            // triangle positive definite
};

struct TensorSpec {
  std::vector<int64_t> shape;
  std::optional<DType> dtype = {}; // none: the dtype that the case runs with
  Values values = Values::Numbers;
  double low = -2, high = 2;
  int64_t limit = 0;
  std::vector<int64_t> list = {};
  bool wide = false; // float32 where the case runs with floats of 16 bits
};

struct OpCase {
  std::string op; // "weft.matmul"
  std::string label;
  std::vector<TensorSpec> operands = {};
  std::string attributes =
      "{}"; // as MLIR spells a dictionary; $T stands for the case's element type
  std::vector<TensorSpec> results = {}; // shapes and dtypes, where the op does not infer them
  std::optional<TensorSpec> value = {}; // weft.constant's
  bool large = false;                   // enough elements for several threads and vectors
  bool smooth = true; // false: a result is infinite, so that central differences see nothing
  std::string name() const {
    return op + " " + label;
  }
};

// All cases of all registered ops of the dialect; structure ops (fusion, yield, leaf,
// provider_call) have none.
std::vector<OpCase> allCases(mlir::MLIRContext &context);
// The ops that should have cases: all but structure ops.
std::vector<std::string> opsWithCases(mlir::MLIRContext &context);

// The case with its operands' numbers near 1, where functions are tame enough for differences to
// tell their derivatives.
OpCase gentle(OpCase c);

// The values of operand `index` of `count`, of the given dtype where the spec has none. The same
// call gives the same values.
ir::HostTensor sample(const TensorSpec &spec, DType dtype, int64_t index, int64_t count);

} // namespace weft::tests
