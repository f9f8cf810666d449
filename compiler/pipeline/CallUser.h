// Functions that users registered may throw. Their exceptions leave by the phase, which says whose.
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/core/thrown.h"

namespace weft::compiler {

// What a user's function threw, behind the name of what it is.
class UserFault : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

// What `function` gives; a UserFault that begins with who() where it throws.
template <typename Who, typename Function>
auto callUser(const Who &who, const Function &function) -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    throw UserFault(std::string(who()) + " " + runtime::thrown_text());
  }
}

} // namespace weft::compiler
