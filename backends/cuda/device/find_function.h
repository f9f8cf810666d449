// Looks functions up in a library that was opened at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace weft::backends::cuda {

// Sets `function` to the library's `symbol`; where it has none, the symbol's name joins the list
// `missing`.
template <typename Function>
void find_function(void *library, const char *symbol, Function &function, std::string &missing) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr)
    missing.append(missing.empty() ? "" : ", ").append(symbol);
}

} // namespace weft::backends::cuda
