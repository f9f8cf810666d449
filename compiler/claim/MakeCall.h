// Private to this folder: how a claim becomes a call.
#pragma once

#include <string>

#include "compiler/claim/Provider.h"

namespace weft::compiler {

// What is wrong with a claim ("has no ops"), or nothing. Looks at its ops and their operands.
std::string whyNoClaim(const Claim &claim);

// Replaces the claimed ops by a call of the entry that holds copies of them. The call stands where
// the last of them stood; the ops stay, dead where nobody else reads them.
void makeCall(llvm::StringRef entry, const Claim &claim);

} // namespace weft::compiler
