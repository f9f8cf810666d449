// Attributes of a function's arguments and results, changed together.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OperationSupport.h"

namespace weft::ir {

// The function has what was changed once this object is gone. FuncOp::setArgAttr instead makes a
// new list of all arguments each time, which its context keeps: of a step with 2,000 parameters and
// moments 38 MB of lists.
class SignatureAttributes {
public:
  explicit SignatureAttributes(mlir::func::FuncOp function) : function_(function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments_.emplace_back(function.getArgAttrDict(i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results_.emplace_back(function.getResultAttrDict(i));
  }
  ~SignatureAttributes() {
    mlir::MLIRContext *context = function_.getContext();
    auto dictionary = [&](mlir::NamedAttrList &list) { return list.getDictionary(context); };
    function_.setAllArgAttrs(llvm::map_to_vector(arguments_, dictionary));
    function_.setAllResultAttrs(llvm::map_to_vector(results_, dictionary));
  }
  SignatureAttributes(const SignatureAttributes &) = delete;
  SignatureAttributes &operator=(const SignatureAttributes &) = delete;

  mlir::NamedAttrList &argument(size_t i) {
    return arguments_[i];
  }
  mlir::NamedAttrList &result(size_t i) {
    return results_[i];
  }

private:
  mlir::func::FuncOp function_;
  llvm::SmallVector<mlir::NamedAttrList, 0> arguments_, results_;
};

} // namespace weft::ir
