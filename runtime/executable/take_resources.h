// What a run takes of an executable that may be a user's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/core/thrown.h"
#include "runtime/executable/executable.h"

namespace weft::runtime {

// acquire(), checked: Internal for null, and for an exception. backend: for the message, if known.
inline absl::StatusOr<std::unique_ptr<RunResources>>
take_resources(Executable &executable, const RunContext &context, std::string_view backend = "") {
  auto wrong = [&](const std::string &what) {
    std::string whose = backend.empty() ? "" : "of the backend '" + std::string(backend) + "' ";
    return absl::InternalError(absl::StrCat("acquire() of the executable ", whose, what));
  };
  try {
    absl::StatusOr<std::unique_ptr<RunResources>> resources = executable.acquire(context);
    if (resources.ok() && !*resources)
      return wrong("gave null and no error");
    return resources;
  } catch (...) {
    return wrong(thrown_text());
  }
}

} // namespace weft::runtime
