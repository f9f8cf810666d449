// What is legal and most likely not meant: a step that updates nothing, a layer that no optimizer
// sees. One place, which a program may replace.
#pragma once

#include <functional>
#include <string>

#include "weft/error.h"

namespace weft {

// What is legal and most likely not meant.
struct Warning {
  std::string message; // names the call, what is odd about it, and what to do
  std::string file;    // the line whose call it is about
  int line = 0;

  std::string to_string() const; // "weft: FILE:LINE: warning: MESSAGE"
};

// Where warnings go from now on, from any thread; null prints them on stderr, as at the start. The
// new place hears of everything once more.
void set_warning_handler(std::function<void(const Warning &)> handler);

// Once for each line and message; a library on top of Weft may warn, too.
void warn(const std::string &message, Location location = Location::current());

} // namespace weft
