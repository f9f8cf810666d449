// What objects compiled ahead of time call oneDNN through: weft_library_finder of runtime/aot/weft_model.h. A file of its own, so that
// oneDNN is linked only where a plan calls it.
#include <string_view>

#include "backends/cpu/device/library_registry.h"

extern "C" const void *weft_onednn_find(const char *name) { return weft::backends::cpu::find_library_entry(name); }
