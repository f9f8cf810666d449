#include "dialects/weft/ir/Bytecode.h"

#include "mlir/IR/Diagnostics.h"

namespace weft::ir {

using namespace mlir;

namespace {

// Attributes and types go as their assembly, and op properties as ODS says; only the version is
// ours.
struct WeftBytecode : BytecodeDialectInterface {
  explicit WeftBytecode(Dialect *dialect) : BytecodeDialectInterface(dialect) {}

  void writeVersion(DialectBytecodeWriter &writer) const override {
    FailureOr<const DialectVersion *> wanted =
        writer.getDialectVersion(getDialect()->getNamespace());
    writer.writeVarInt(succeeded(wanted) ? static_cast<const BytecodeVersion *>(*wanted)->number
                                         : kBytecodeVersion);
  }

  std::unique_ptr<DialectVersion> readVersion(DialectBytecodeReader &reader) const override {
    uint64_t number = 0;
    if (failed(reader.readVarInt(number)))
      return nullptr;
    if (number < kOldestBytecodeVersion) {
      reader.emitError() << "the file holds weft ops of version " << number
                         << ", but this Weft reads versions from " << kOldestBytecodeVersion
                         << " on; write it anew";
      return nullptr;
    }
    if (number <= kBytecodeVersion)
      return std::make_unique<BytecodeVersion>(number);
    reader.emitError() << "the file holds weft ops of version " << number
                       << ", but this Weft reads versions up to " << kBytecodeVersion
                       << "; read it with a newer Weft";
    return nullptr;
  }
};

} // namespace

std::unique_ptr<DialectInterface> bytecodeInterface(Dialect *dialect) {
  return std::make_unique<WeftBytecode>(dialect);
}

} // namespace weft::ir
