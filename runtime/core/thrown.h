// Functions of users may throw; what Weft calls them from cannot let that pass.
#pragma once

#include <exception>
#include <string>

namespace weft::runtime {

// What the exception at hand says, to stand after the name of what threw it. In a catch block only.
inline std::string thrown_text() {
  try {
    throw;
  } catch (const std::exception &error) {
    return std::string("threw an exception: ") + error.what();
  } catch (...) {
    return "threw an exception that is no std::exception";
  }
}

} // namespace weft::runtime
