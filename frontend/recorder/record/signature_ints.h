// Signatures without their ints.
#pragma once

#include "frontend/recorder/record/signature_text.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace weft::recorder {

struct SignatureInts {
  std::string structure;     // the op, its other properties, dtypes and ranks
  std::vector<int64_t> ints; // sizes, attributes, constants, in an order that the structure gives
  std::vector<IntPosition> positions; // of the ints; op is 0
};
SignatureInts split_ints(llvm::StringRef op, mlir::DictionaryAttr properties,
                         llvm::ArrayRef<const TypeInfo *> operands,
                         llvm::ArrayRef<const TypeInfo *> results);

} // namespace weft::recorder
