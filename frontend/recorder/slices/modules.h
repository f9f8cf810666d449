// Which module the ops of a slice belong to.
#pragma once

#include <vector>

#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {

// By node of the slice; null where it is no module's. The module is the one whose parameter an op's
// call read, or that said so (InModule): its line has it. What a function of the user's does
// between such calls is known by two things: its class, which the caller's location names, and what
// it reads. It belongs to the innermost module of that class which holds what its latest operand
// was computed by. Such an op, where it comes first in its module and reads another instance of the
// same class, is taken for the latter's.
std::vector<const ModuleName *> modules_of(const Slice &slice);

} // namespace weft::recorder
