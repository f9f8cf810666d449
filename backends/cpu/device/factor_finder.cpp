// What objects compiled ahead of time call factorizations through: weft_library_finder of
// runtime/aot/weft_model.h. A file of its own, so that they are linked only where a plan calls
// them.

#include "backends/cpu/device/factor_entry.h"

extern "C" const struct weft_library_entry *weft_factor_find(const char *name) {
  for (const weft::runtime::LibraryEntry *entry : weft::backends::cpu::factor_entries())
    if (entry->name() == name)
      return reinterpret_cast<const weft_library_entry *>(entry);
  return nullptr;
}
