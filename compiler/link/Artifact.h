// A compiled program with its code as bytes: what the disk cache keeps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/ADT/ArrayRef.h"

namespace weft::compiler {

// Raised with every change to the layout. The program inside has a version of its own.
inline constexpr uint32_t kArtifactVersion = 2;

struct Artifact {
  std::string program; // runtime::serialize()
  std::string sizes;   // the same of its table of sizes; empty where it has none
  std::vector<std::shared_ptr<const std::string>> objects; // relocatable ELF objects
};

std::string writeArtifact(const Artifact &artifact);

// DataLoss for bytes that are cut off, altered or no artifact; FailedPrecondition for one of
// another version. Allocates no more than the bytes justify.
absl::StatusOr<Artifact> readArtifact(llvm::ArrayRef<char> bytes);

} // namespace weft::compiler
