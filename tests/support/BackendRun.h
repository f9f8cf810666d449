// Compiling and running a module on a backend, for tests.
#pragma once

#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backend/Backend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tests/support/OpCases.h"

namespace weft::runtime {
class Executable;
}

namespace weft::tests {

// One way to run programs: a backend with options.
struct Variant {
  std::string name;    // "cpu unclaimed"
  std::string backend; // "cpu"
  compiler::CompileOptions options = {};
  bool views = true; // whether operands that are views are worth their time
  bool threads = true; // whether a number of threads means something to it
  // Whether a third of an op's dtypes will do, the others in other trees: kernels are made as in
  // another variant, for other vectors or of one op each.
  bool byTurns = false;
  // Elements of an operand of 8 or 16 bits, at most: kernels of these differ from those of wider
  // ones in loads, stores and roundings, which few elements show.
  int64_t mostNarrow = std::numeric_limits<int64_t>::max();
};

// For the messages of GoogleTest.
inline void PrintTo(const Variant &variant, std::ostream *stream) {
  *stream << variant.name;
}

// All registered backends (of the cpu one there is a row without fusion), those that compile for a
// device also without providers, and the cpu one without 512-bit vectors.
std::vector<Variant> variants();

// LLVM features (CompileOptions::features) that make a machine with AVX-512 compile as one with
// AVX2; nothing on other machines.
std::optional<std::string> narrowFeatures();

// A context that can hold modules for every registered backend.
void prepare(mlir::MLIRContext &context);

// The module stays as it is: the backend gets a copy. report may be null.
absl::StatusOr<std::shared_ptr<runtime::Executable>>
compile(mlir::ModuleOp module, const Variant &variant, compiler::CompileReport *report = nullptr);
// Results in the order of the function's; inputs are copied, so that donation cannot be seen. The
// buffers are those of the kind of devices that has the backend's name: of its second one if there
// are two. Where there is none they are a host's with as many threads.
absl::StatusOr<std::vector<ir::HostTensor>> run(std::shared_ptr<runtime::Executable> executable,
                                                const std::vector<ir::HostTensor> &inputs,
                                                int threads, const std::string &backend = "cpu");

} // namespace weft::tests
