#include "backends/cpu/device/custom_entry.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"
#include "runtime/custom/custom_kernels.h"
#include "runtime/executable/run_failure.h"

namespace weft::backends::cpu {
namespace {

using runtime::CustomTensor;
using runtime::LibraryCall;
using runtime::LibraryCallState;

class CustomState : public LibraryCallState {
public:
  CustomState(const runtime::CustomKernel &kernel, int threads)
      : kernel_(kernel), threads_(threads) {}

  absl::Status run(std::span<void *const> operands, void *) override {
    for (size_t i = 0; i < operands.size(); ++i)
      (i < inputs_.size() ? inputs_[i] : outputs_[i - inputs_.size()]).data = operands[i];
    absl::Status status = kernel_.run(inputs_, outputs_, {ints_, scalars_}, threads_);
    // Plans write what is kept after the last call of a user's kernel
    // (compiler/plan/IndexChecks.h).
    return status.ok() ? status : runtime::with_kept_inputs(std::move(status));
  }

  std::vector<CustomTensor> inputs_, outputs_;
  std::vector<int64_t> ints_;
  std::vector<double> scalars_;

private:
  const runtime::CustomKernel &kernel_;
  int threads_;
};

class CustomEntry : public runtime::LibraryEntry {
public:
  std::string_view name() const override {
    return "weft.custom";
  }

  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int threads) const override {
    WEFT_ASSIGN_OR_RETURN(std::string name, runtime::config_string(call.config, "kernel", ""));
    WEFT_ASSIGN_OR_RETURN(const runtime::CustomKernel *kernel, runtime::find_custom_kernel(name));
    WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> ints, runtime::config_ints(call.config, "ints"));
    WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> bits,
                          runtime::config_ints(call.config, "scalar_bits"));
    auto state = std::make_unique<CustomState>(*kernel, threads);
    state->ints_ = std::move(ints);
    for (int64_t each : bits)
      state->scalars_.push_back(std::bit_cast<double>(each));
    for (size_t i = 0; i < call.operands.size(); ++i)
      (static_cast<int32_t>(i) < call.inputs ? state->inputs_ : state->outputs_)
          .push_back({call.operands[i].dtype, call.operands[i].dims, nullptr});
    // A program from a file may have been made with another kernel of this name.
    WEFT_ASSIGN_OR_RETURN(auto expected,
                          kernel->infer(state->inputs_, {state->ints_, state->scalars_}));
    bool same = expected.size() == state->outputs_.size();
    for (size_t i = 0; same && i < expected.size(); ++i)
      same = expected[i].dtype == state->outputs_[i].dtype &&
             expected[i].dims == state->outputs_[i].dims;
    if (!same)
      return absl::FailedPreconditionError(absl::StrCat(
          "the kernel ", name, " gives other shapes than when the program was compiled"));
    return state;
  }
};

} // namespace

const runtime::LibraryEntry &custom_entry() {
  static const CustomEntry entry;
  return entry;
}

} // namespace weft::backends::cpu
