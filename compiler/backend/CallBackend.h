// Calls of a backend, which may be a user's: it may throw.
#pragma once

#include <new>

#include "absl/status/statusor.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "runtime/core/thrown.h"

namespace weft::compiler {

// What `call`, which gives a Status or a StatusOr, gives. Where it throws: ResourceExhausted for
// memory of the host that ran out, Internal for all else. function: what the message names beside
// the backend.
template <typename Call>
auto callBackend(llvm::StringRef backend, llvm::StringRef function, const Call &call)
    -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    return absl::ResourceExhaustedError(
        ("there is not enough memory on the host for " + function + " of the backend '" + backend +
         "'")
            .str());
  } catch (...) {
    return absl::InternalError((function + " of the backend '" + backend + "' " +
                                runtime::thrown_text())
                                   .str());
  }
}

} // namespace weft::compiler
