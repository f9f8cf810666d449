// What objects compiled ahead of time call kernels of users through: weft_library_finder of
// runtime/aot/weft_model.h. A file of its own, so that it is linked only where a plan calls one:
// weft_kernel_plugin is the user's.
#include <string>

#include "backends/cpu/device/custom_entry.h"
#include "runtime/abi/weft_custom.h"
#include "runtime/executable/library_call.h"

namespace {

using namespace weft;

// Stands for the entry where the kernels could not be registered: a finder gives no reason.
class Refused : public runtime::LibraryEntry {
public:
  explicit Refused(std::string why) : why_(std::move(why)) {}
  std::string_view name() const override {
    return backends::cpu::custom_entry().name();
  }
  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const runtime::LibraryCall &,
                                                                  int) const override {
    return absl::FailedPreconditionError("weft_kernel_plugin failed: " + why_);
  }

private:
  std::string why_;
};

const runtime::LibraryEntry &registered_entry() {
  static const char *wrong = weft_kernel_plugin(weft_register_kernel);
  if (wrong == nullptr)
    return backends::cpu::custom_entry();
  static const Refused refused(wrong);
  return refused;
}

} // namespace

extern "C" const struct weft_library_entry *weft_custom_find(const char *name) {
  return backends::cpu::custom_entry().name() == name
             ? reinterpret_cast<const weft_library_entry *>(&registered_entry())
             : nullptr;
}
