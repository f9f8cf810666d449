// Ops that users replaced (weft::replace_op): their calls are recorded as other ops.
#pragma once

#include <memory>

#include "frontend/recorder/record/state.h"
#include "weft/extend.h"

namespace weft::recorder {

// What calls of the op record instead; null for most. From any thread.
std::shared_ptr<const OpReplacement> replacement_of(llvm::StringRef op);

// Records an op of a signature that is_indirect: by its replacement, in parts, or, inside of a
// replacement, as it is.
void record_indirectly(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line,
                       llvm::SmallVectorImpl<Var> &results);

} // namespace weft::recorder
