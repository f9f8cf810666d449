// What runs the calls: in the process that compiles, and linked into programs that are compiled
// ahead of time. Sees the runtime alone.
#include "entry.h"

#include "gemm.h"

namespace mine {
namespace {

using namespace weft::runtime;

// One product, ready to run.
class GemmCall : public LibraryCallState {
public:
  GemmCall(int64_t m, int64_t n, int64_t k) : m_(m), n_(n), k_(k) {}
  absl::Status run(std::span<void *const> operands, void *) override {
    mine_gemm(m_, n_, k_, static_cast<const float *>(operands[0]),
              static_cast<const float *>(operands[1]), static_cast<float *>(operands[2]));
    return absl::OkStatus();
  }

private:
  int64_t m_, n_, k_;
};

class GemmEntry : public LibraryEntry {
public:
  std::string_view name() const override {
    return "mine.gemm";
  }
  // Threads are the library's own matter: this one has none.
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int) const override {
    if (call.operands.size() != 3)
      return absl::InvalidArgumentError("mine.gemm takes two matrices and gives one");
    const auto &a = call.operands[0].dims, &b = call.operands[1].dims;
    return std::make_unique<GemmCall>(a[0], b[1], a[1]);
  }
  double operations(const LibraryCall &call) const override {
    const auto &a = call.operands[0].dims, &c = call.operands[2].dims;
    return 2.0 * double(c[0]) * double(c[1]) * double(a[1]);
  }
};

} // namespace

const LibraryEntry &gemm_entry() {
  static const GemmEntry entry;
  return entry;
}

} // namespace mine

// How a program that is compiled ahead of time finds the entry (runtime/aot/weft_model.h).
extern "C" const struct weft_library_entry *mine_gemm_find(const char *name) {
  const weft::runtime::LibraryEntry &entry = mine::gemm_entry();
  return entry.name() == name ? reinterpret_cast<const weft_library_entry *>(&entry) : nullptr;
}
