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
namespace {

struct PlanVersion : mlir::DialectVersion {
  explicit PlanVersion(int64_t version) : version(version) {}
  int64_t version;
};

struct PlanBytecode : mlir::BytecodeDialectInterface {
  explicit PlanBytecode(mlir::Dialect *dialect) : BytecodeDialectInterface(dialect) {}

  void writeVersion(mlir::DialectBytecodeWriter &writer) const override {
    writer.writeVarInt(kBytecodeVersion);
  }
  std::unique_ptr<mlir::DialectVersion>
  readVersion(mlir::DialectBytecodeReader &reader) const override {
    uint64_t version;
    if (mlir::failed(reader.readVarInt(version)))
      return nullptr;
    if (version > uint64_t(kBytecodeVersion)) {
      reader.emitError() << "plan bytecode of version " << version << ", newer than "
                         << kBytecodeVersion << ", which this program reads";
      return nullptr;
    }
    return std::make_unique<PlanVersion>(version);
  }

  mlir::LogicalResult writeType(mlir::Type type,
                                mlir::DialectBytecodeWriter &writer) const override {
    auto buffer = mlir::dyn_cast<BufferType>(type);
    if (!buffer)
      return mlir::failure();
    writer.writeVarInt(buffer.getBytes());
    return mlir::success();
  }
  mlir::Type readType(mlir::DialectBytecodeReader &reader) const override {
    uint64_t bytes;
    if (mlir::failed(reader.readVarInt(bytes)))
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

mlir::LogicalResult BufferType::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                       int64_t bytes) {
  if (bytes < 0)
    return emitError() << "a buffer cannot have " << bytes << " bytes";
  return mlir::success();
}

} // namespace weft::plan
