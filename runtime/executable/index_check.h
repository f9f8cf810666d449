// After a kernel found an index out of range: which index it was, and where it stands.
#pragma once

#include <string>

#include "runtime/executable/program.h"

namespace weft::runtime {

struct BadIndex {
  std::string message;
  int32_t location =
      -1; // of the op, into Program::locations; -1 where it is not known which op it was
};

// Looks for the index in the launch's operands (`buffers`, as the kernel got them). A kernel says
// only that there is one, so that its loops stay fast; this function runs after a program has
// failed. An index that the kernel computed itself, or whose buffer it has overwritten, cannot be
// shown: the message then gives the bounds of all the launch's checks.
BadIndex find_bad_index(const Program &program, const Launch &launch, void *const *buffers);

} // namespace weft::runtime
