#include "backends/cpu/device/library_registry.h"

#include <vector>

#include "backends/cpu/device/convolution_entry.h"
#include "backends/cpu/device/custom_entry.h"
#include "backends/cpu/device/factor_entry.h"
#include "backends/cpu/device/file_entry.h"
#include "backends/cpu/device/matmul_entry.h"
#include "backends/cpu/device/onednn_matmul.h"
#include "backends/cpu/device/onednn_threads.h"
#include "backends/cpu/device/pack_entry.h"
#include "backends/cpu/device/sort_entry.h"

namespace weft::backends::cpu {

std::span<const runtime::LibraryEntry *const> library_entries() {
  static const std::vector<const runtime::LibraryEntry *> entries = [] {
    std::vector<const runtime::LibraryEntry *> all = {
        &matmul_entry(), &pack_entry(),  &convolution_entry(), &custom_entry(),
        &sort_entry(),   &store_entry(), &load_entry()};
    all.insert(all.end(), factor_entries().begin(), factor_entries().end());
    return all;
  }();
  return entries;
}

const runtime::LibraryEntry *find_library_entry(std::string_view name) {
  for (const runtime::LibraryEntry *entry : library_entries())
    if (entry->name() == name)
      return entry;
  return nullptr;
}

std::string library_versions() {
  return onednn_version();
}

std::string library_threads() {
  return onednn_own_threads();
}

} // namespace weft::backends::cpu
