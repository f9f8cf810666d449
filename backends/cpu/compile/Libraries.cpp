#include "backends/cpu/compile/Libraries.h"

namespace weft::backends::cpu {

runtime::LibraryResolver libraryResolver() {
  return [](std::string_view) -> const runtime::LibraryEntry * { return nullptr; };
}

const compiler::ProviderSet *providers() { return nullptr; }

std::string libraryVersions() { return "no libraries"; }

} // namespace weft::backends::cpu
