// What objects compiled ahead of time call sorts through: weft_library_finder of
// runtime/aot/weft_model.h. A file of its own, so that sorts are linked only where a plan calls
// them.

#include "backends/cpu/device/sort_entry.h"

extern "C" const struct weft_library_entry *weft_sort_find(const char *name) {
  const weft::runtime::LibraryEntry &entry = weft::backends::cpu::sort_entry();
  return entry.name() == name ? reinterpret_cast<const weft_library_entry *>(&entry) : nullptr;
}
