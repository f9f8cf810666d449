// What objects compiled ahead of time call oneDNN's products through: weft_library_finder of
// runtime/aot/weft_model.h. A file of its own, so that oneDNN is linked only where a plan calls it,
// and nothing else with it.
#include "backends/cpu/device/matmul_entry.h"
#include "backends/cpu/device/pack_entry.h"

extern "C" const struct weft_library_entry *weft_onednn_find(const char *name) {
  using namespace weft::backends::cpu;
  for (const weft::runtime::LibraryEntry *entry : {&matmul_entry(), &pack_entry()})
    if (entry->name() == name)
      return reinterpret_cast<const weft_library_entry *>(entry);
  return nullptr;
}
