// Checks of indices before what is written in place.
#pragma once

#include "compiler/fusion/FusionBuilder.h"
#include "compiler/pipeline/Report.h"
#include "mlir/IR/Block.h"

namespace weft::compiler {

// A run that ends at an index out of range leaves each kept argument of @main (weft.kept) as it
// was, so that the plan writes these after the last check alone. Where a check reads what was
// written to a large one, as in buffer[i] = x; buffer.index({sample}), or is the write's own, it
// could not come first, and the write would go to a copy. So it becomes a kernel of its own, which
// gives the indices, from 0 on, to what had it:
//
//   %0 = weft.index_put %buffer, %i, %x              %c = weft.index_select %iota, %sample
//   %1 = weft.index_select %0, %sample         ->    %0 = weft.index_put %buffer, %i, %x
//                                                    %1 = weft.index_select %0, %c {weft.in_range}
//
// These kernels are added to the groups. What must stay, as indices that are computed of what was
// written, is refused. After writeInPlace(). Linear in ops.
void checkBeforeWrites(mlir::Block &block, FusionGroups &groups, RefusalCollector &refusals);

} // namespace weft::compiler
