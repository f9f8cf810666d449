// Reads what came across the boundary, by the rules of weft_version.h. C++, for Weft's own side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/abi/weft_version.h"

namespace weft::runtime {

// "1.2".
inline std::string version_text(uint32_t version) {
  return std::to_string(WEFT_VERSION_MAJOR(version)) + "." +
         std::to_string(WEFT_VERSION_MINOR(version));
}

// FailedPrecondition, with both versions, where the major ones differ. `what`: "the model";
// `interface`: the header that states the version.
inline absl::Status check_version(uint32_t given, uint32_t ours, const std::string &what,
                                  const char *interface, bool newer_minor = true) {
  if (WEFT_VERSION_MAJOR(given) == WEFT_VERSION_MAJOR(ours) &&
      (newer_minor || WEFT_VERSION_MINOR(given) <= WEFT_VERSION_MINOR(ours)))
    return absl::OkStatus();
  return absl::FailedPreconditionError(what + " was built for version " + version_text(given) +
                                       " of " + interface + "; this Weft has version " +
                                       version_text(ours) + ", which does not fit: build it anew");
}

// For what uses C++ classes: a virtual function that a newer minor version appended is not there.
inline absl::Status check_cxx_version(uint32_t given, uint32_t ours, const std::string &what,
                                      const char *interface) {
  return check_version(given, ours, what, interface, /*newer_minor=*/false);
}

// The struct as this version has it: fields that it lacks are 0. first_bytes: what the first minor
// version had of it; InvalidArgument for less.
template <typename Struct>
absl::StatusOr<Struct> read_struct(const Struct &given, size_t first_bytes,
                                   const std::string &what) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  size_t bytes = given.struct_size;
  if (bytes < first_bytes)
    return absl::InvalidArgumentError(what + " has a struct_size of " + std::to_string(bytes) +
                                      "; it is " + std::to_string(first_bytes) +
                                      " at least: what sizeof gives");
  Struct result;
  std::memset(&result, 0, sizeof result);
  std::memcpy(&result, &given, std::min(bytes, sizeof result));
  result.struct_size = sizeof result;
  return result;
}

// The same of a struct that states its version, of which nothing but that is looked at where it is
// another one.
template <typename Struct>
absl::StatusOr<Struct> read_struct(const Struct &given, size_t first_bytes, uint32_t ours,
                                   const std::string &what, const char *interface) {
  if (given.struct_size >= offsetof(Struct, version) + sizeof given.version)
    if (absl::Status status = check_version(given.version, ours, what, interface); !status.ok())
      return status;
  return read_struct(given, first_bytes, what);
}

} // namespace weft::runtime
