// Writes of small parts into a value that the program may overwrite.
#pragma once

#include "compiler/fusion/FusionBuilder.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

// Whether the op is one of Weft's own that writes where indices say.
bool isScatter(mlir::Operation *op);
// The value that this one is, in another shape: a reshape is an alias.
mlir::Value withoutReshapes(mlir::Value value);
// Whether it is an argument of @main with this attribute.
bool isArgumentWith(mlir::Value value, llvm::StringRef attribute);
// Whether it is an argument of @main of kMinOverwritten bytes whose memory a result may take over.
bool isLargeDonated(mlir::Value value);

// Which insert_slices of a block are better made index_puts. A kernel with an insert_slice writes
// all of its result; that of an index_put, where its result lies in its base's memory, the part
// alone. Two kinds are:
//   writes into a large donatable argument of @main, one after the other or alone, of all of which
//   the parts are fewer bytes than it has;
//   chains of many writes to any value: an insert_slice compares each element of its result with
//   the place of its part, so that a kernel of n of them makes n comparisons an element, and is
//   another kernel for other places; index_puts are launches of one kernel.
// Linear in ops. A program is asked before any of its ops is replaced.
class PartWrites {
public:
  explicit PartWrites(mlir::Block &block);
  bool contains(ir::InsertSliceOp op) const {
    return chosen_.contains(op);
  }

private:
  llvm::DenseSet<mlir::Operation *> chosen_;
};

// One of these as an index_put, before the op, which stays. starts: those that are known at run
// time only, int64 [], by dim; null for others. The dims that it writes a part of become one.
mlir::Value putPart(mlir::OpBuilder &builder, ir::InsertSliceOp op,
                    llvm::ArrayRef<mlir::Value> starts = {});

// Makes these writes index_puts.
void writeInPlace(mlir::Block &block);

// Adds to the groups those scatters that must be kernels of their own: one that reads the base
// elsewhere as well, as that of b[5] += x would, cannot write its memory, and those of a chain of
// writes are one and the same; and reads of parts of the base, which would come too late in a
// kernel behind the write. After writeInPlace() and checkBeforeWrites(). Linear in ops and uses.
void separateWrites(mlir::Block &block, FusionGroups &groups);

} // namespace weft::compiler
