#include "runtime/executor/transfer.h"

#include "runtime/core/status.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/buffer.h"
#include "runtime/profile/profile.h"

namespace weft::runtime {
namespace {

class Transfer : public Executable {
public:
  Transfer(Device &from, Device &to, int64_t bytes) : from_(from), to_(to) {
    input_.bytes = output_.bytes = bytes;
  }

  std::span<const InputSpec> input_specs() const override {
    return {&input_, 1};
  }
  std::span<const OutputSpec> output_specs() const override {
    return {&output_, 1};
  }
  int64_t arena_bytes() const override {
    return staging_bytes();
  }
  bool is_serial() const override {
    return true;
  }
  int64_t work_bytes() const override {
    return 2 * input_.bytes;
  }

  absl::StatusOr<std::unique_ptr<RunResources>> acquire(const RunContext &) override {
    auto resources = std::make_unique<Staging>();
    if (int64_t bytes = staging_bytes(); bytes > 0) {
      WEFT_ASSIGN_OR_RETURN(resources->buffer, cpu_device().memory()->allocate(bytes, "transfer"));
      resources->bytes = bytes;
    }
    return resources;
  }

  absl::Status run(const RunContext &, RunResources &resources, std::span<Buffer *const> inputs,
                   std::span<Buffer *const> outputs) override {
    profile::Span span([this] {
      return profile::Label{profile::Kind::kTransfer,
                            "transfer " + from_.name() + " to " + to_.name(),
                            "",
                            "",
                            0,
                            static_cast<double>(2 * input_.bytes)};
    });
    absl::Status status = copy(resources, inputs, outputs);
    return status.ok() ? status : with_kept_inputs(std::move(status));
  }

private:
  absl::Status copy(RunResources &resources, std::span<Buffer *const> inputs,
                    std::span<Buffer *const> outputs) {
    const void *source = inputs[0]->data();
    void *target = outputs[0]->data();
    if (from_.is_host_memory())
      return to_.write(target, source, input_.bytes);
    if (to_.is_host_memory())
      return from_.read(target, source, input_.bytes);
    void *host = static_cast<Staging &>(resources).buffer->data();
    absl::Status status = from_.read(host, source, input_.bytes);
    return status.ok() ? to_.write(target, host, input_.bytes) : status;
  }

  struct Staging : RunResources {
    std::shared_ptr<Buffer> buffer;
  };
  // Between two devices whose memory the host cannot read the bytes pass through the host's.
  int64_t staging_bytes() const {
    return from_.is_host_memory() || to_.is_host_memory() ? 0 : input_.bytes;
  }

  Device &from_, &to_;
  InputSpec input_;
  OutputSpec output_;
};

} // namespace

std::shared_ptr<Executable> make_transfer(Device &from, Device &to, int64_t bytes) {
  return std::make_shared<Transfer>(from, to, bytes);
}

} // namespace weft::runtime
