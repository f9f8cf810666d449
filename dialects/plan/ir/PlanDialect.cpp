#include "dialects/plan/ir/Plan.h"

#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialects/plan/ir/PlanDialect.cpp.inc"
#include "dialects/plan/ir/PlanInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/plan/ir/PlanTypes.cpp.inc"

namespace weft::plan {

using namespace mlir;

namespace {

struct PlanVersion : DialectVersion {
  explicit PlanVersion(int64_t version) : version(version) {}
  int64_t version;
};

struct PlanBytecode : BytecodeDialectInterface {
  explicit PlanBytecode(Dialect *dialect) : BytecodeDialectInterface(dialect) {}

  void writeVersion(DialectBytecodeWriter &writer) const override {
    writer.writeVarInt(kBytecodeVersion);
  }
  std::unique_ptr<DialectVersion> readVersion(DialectBytecodeReader &reader) const override {
    uint64_t version;
    if (failed(reader.readVarInt(version)))
      return nullptr;
    if (version > uint64_t(kBytecodeVersion)) {
      reader.emitError() << "plan bytecode of version " << version << ", newer than "
                         << kBytecodeVersion << ", which this program reads";
      return nullptr;
    }
    return std::make_unique<PlanVersion>(version);
  }

  LogicalResult writeType(Type type, DialectBytecodeWriter &writer) const override {
    auto buffer = dyn_cast<BufferType>(type);
    if (!buffer)
      return failure();
    writer.writeVarInt(buffer.getBytes());
    return success();
  }
  Type readType(DialectBytecodeReader &reader) const override {
    uint64_t bytes;
    if (failed(reader.readVarInt(bytes)))
      return {};
    return BufferType::getChecked([&] { return reader.emitError(); }, getContext(), int64_t(bytes));
  }
};

} // namespace

void PlanDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/plan/ir/PlanTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/ir/PlanOps.cpp.inc"
      >();
  addInterfaces<PlanBytecode>();
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t bytes) {
  if (bytes < 0)
    return emitError() << "a buffer cannot have " << bytes << " bytes";
  return success();
}

} // namespace weft::plan
