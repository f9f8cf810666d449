// Memory for what the first attempt found none for.
#pragma once

#include "frontend/recorder/requests/requests.h"
#include "frontend/recorder/runs/executors.h"

namespace weft::recorder {

// What `make` gives, which throws kMemory where there is no memory. What is recorded and under way
// then gives back what it can, and it is made once more. Between calls: no slice may be claimed.
template <typename Make> auto make_with_room(const Make &make) -> decltype(make()) {
  try {
    return make();
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::kMemory)
      throw;
  }
  make_room(); // what is under way holds inputs, too
  free_inputs();
  return make();
}

} // namespace weft::recorder
