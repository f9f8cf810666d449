#include "backends/cpu/compile/Libraries.h"

#include "backends/cpu/device/library_registry.h"

namespace weft::backends::cpu {

runtime::LibraryResolver libraryResolver() {
  return find_library_entry;
}

const compiler::ProviderSet *providers() { return nullptr; }

std::string libraryVersions() { return library_versions(); }

} // namespace weft::backends::cpu
