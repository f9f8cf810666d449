// Private: a runtime error as an exception.
#pragma once

#include "absl/status/status.h"
#include "weft/error.h"

namespace weft::io {

inline void check(const absl::Status &status, Location location) {
  if (!status.ok())
    fail_at(location, ErrorKind::kFile, std::string(status.message()));
}

} // namespace weft::io
