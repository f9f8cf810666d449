// Says more of a kernel that found an index out of range: which one, where.
#pragma once

#include <string>

#include "runtime/executable/program.h"

namespace weft::runtime {

struct BadIndex {
  std::string message;
  int32_t location =
      -1; // of the op, into Program::locations; -1 where it is not known which op it was
};

// Looks for the index in the launch's operands (`buffers`, as the kernel got them). Kernels only
// say that there is one: this runs when a program has failed already. An index that the kernel
// computed itself, or whose buffer it has overwritten, cannot be shown; then the message says what
// the launch's ops ask of theirs.
BadIndex find_bad_index(const Program &program, const Launch &launch, void *const *buffers);

} // namespace weft::runtime
