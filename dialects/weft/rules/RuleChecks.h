// For the shape rules and verifiers: checked access to operands, and errors that say what to do.
#pragma once

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

// The checks of one op. Users see the messages, so they name the op, the arguments and both shapes
// as numpy writes them.
class RuleChecks {
public:
  RuleChecks(std::optional<mlir::Location> loc, llvm::StringRef op) : loc_(loc), op_(op) {}
  RuleChecks(mlir::Operation *op) : loc_(op->getLoc()), op_(op->getName().getStringRef()) {}

  mlir::LogicalResult error(const llvm::Twine &message) const {
    return mlir::emitOptionalError(loc_, op_, ": ", message);
  }
  // Of dtypes, which callers tell from errors of shapes: isDtypeError(location of the diagnostic).
  mlir::LogicalResult dtypeError(const llvm::Twine &message) const {
    RuleChecks marked = *this;
    if (loc_)
      marked.loc_ =
          mlir::FusedLoc::get({*loc_}, mlir::UnitAttr::get(loc_->getContext()), loc_->getContext());
    return marked.error(message);
  }

  // The type of an operand; null, with an error, where it is no tensor whose dims are named.
  mlir::RankedTensorType tensor(mlir::Value value, llvm::StringRef argument) const {
    auto type = mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
    if (type && dimsAreNamed(type))
      return type;
    (void)error(argument +
                " must be a tensor whose dynamic dimensions are named by #weft.dims, not " +
                spell(value.getType()));
    return {};
  }

  mlir::LogicalResult dim(int64_t dim, mlir::RankedTensorType type,
                          llvm::StringRef argument) const {
    if (dim >= 0 && dim < type.getRank())
      return mlir::success();
    if (type.getRank() == 0)
      return error(argument + " is " + spell(type) + ", a scalar, which has no dimension " +
                   llvm::Twine(dim));
    return error("dim " + llvm::Twine(dim) + " is out of range for " + argument + ", " +
                 spell(type) + "; use 0 to " + llvm::Twine(type.getRank() - 1));
  }

  mlir::LogicalResult sameElement(mlir::RankedTensorType a, llvm::StringRef nameA,
                                  mlir::RankedTensorType b, llvm::StringRef nameB) const {
    if (a.getElementType() == b.getElementType())
      return mlir::success();
    return dtypeError(nameA + " is " + spell(a) + " but " + nameB + " is " + spell(b) +
                      "; cast one, so that their dtypes are equal");
  }

  mlir::LogicalResult index(mlir::RankedTensorType type) const {
    if (type.getElementType().isInteger(32) || type.getElementType().isInteger(64))
      return mlir::success();
    return dtypeError("indices is " + spell(type) + "; indices must be int32 or int64, cast them");
  }

private:
  std::optional<mlir::Location> loc_;
  llvm::StringRef op_;
};

// Whether a rule's diagnostic at this location is about dtypes; else it is about shapes.
inline bool isDtypeError(mlir::Location location) {
  auto fused = mlir::dyn_cast<mlir::FusedLoc>(location);
  return fused && mlir::isa_and_nonnull<mlir::UnitAttr>(fused.getMetadata());
}

} // namespace weft::ir
