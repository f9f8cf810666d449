// Functions of users, as rules of their ops, may throw anything; callers of Weft catch an Error.
#pragma once

#include "frontend/recorder/record/recorder.h"
#include "runtime/core/thrown.h"

namespace weft::recorder {

// What `function` gives; an error that begins with `who` where it throws. An Error passes as it is:
// its line is the user's.
template <typename Function>
auto call_user(const std::string &who, const Function &function) -> decltype(function()) {
  try {
    return function();
  } catch (const Error &) {
    throw;
  } catch (...) {
    fail(ErrorKind::kState, who + " " + runtime::thrown_text());
  }
}

} // namespace weft::recorder
