// What objects compiled ahead of time call convolutions through: weft_library_finder of
// runtime/aot/weft_model.h. A file of its own, so that convolutions are linked only where a plan
// calls them: a perceptron is 1.3 MB in place of 2.1.
#include "backends/cpu/device/convolution_entry.h"

extern "C" const struct weft_library_entry *weft_convolution_find(const char *name) {
  const weft::runtime::LibraryEntry &entry = weft::backends::cpu::convolution_entry();
  return entry.name() == name ? reinterpret_cast<const weft_library_entry *>(&entry) : nullptr;
}
