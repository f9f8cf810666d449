// The version that bytecode files of weft ops carry.
#pragma once

#include <cstdint>
#include <memory>

#include "mlir/Bytecode/BytecodeImplementation.h"

namespace weft::ir {

// Goes up with each change that an older reader would misread. A reader takes the versions from the
// oldest one that it reads up to its own and refuses others: since version 2, ops that look at
// indices say whose indices these are.
inline constexpr uint64_t kBytecodeVersion = 2, kOldestBytecodeVersion = 2;

// For mlir::BytecodeWriterConfig::setDialectVersion<WeftDialect>, to write for another version than
// kBytecodeVersion.
struct BytecodeVersion : mlir::DialectVersion {
  explicit BytecodeVersion(uint64_t number) : number(number) {}
  uint64_t number;
};

std::unique_ptr<mlir::DialectInterface> bytecodeInterface(mlir::Dialect *dialect);

} // namespace weft::ir
