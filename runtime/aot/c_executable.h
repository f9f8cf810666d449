// Executables across the plain C of weft_model.h, in both directions.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/aot/weft_model.h"
#include "runtime/executable/executable.h"

namespace weft::runtime {

// For who writes a weft_executable_maker: fills `to` with what it made, which takes its resources
// now. Returns what the maker returns.
const char *give_executable(absl::StatusOr<std::shared_ptr<Executable>> made, weft_executable *to);

// For the model: what the maker makes of an entry's program, of which `program` is a copy. Errors:
// the maker's text, or FailedPrecondition for a maker of another major version.
absl::StatusOr<std::shared_ptr<Executable>>
take_executable(weft_executable_maker maker, const weft_entry_code &entry, Program program);

} // namespace weft::runtime
