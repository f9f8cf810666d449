// What objects compiled ahead of time call files of values through: weft_library_finder of
// runtime/aot/weft_model.h. A file of its own, so that they are linked only where a plan has some.

#include "backends/cpu/device/file_entry.h"

extern "C" const struct weft_library_entry *weft_file_find(const char *name) {
  for (const weft::runtime::LibraryEntry *entry :
       {&weft::backends::cpu::store_entry(), &weft::backends::cpu::load_entry()})
    if (entry->name() == name)
      return reinterpret_cast<const weft_library_entry *>(entry);
  return nullptr;
}
