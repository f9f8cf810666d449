#include "runtime/aot/c_executable.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "runtime/abi/read_struct.h"
#include "runtime/core/status.h"
#include "runtime/executable/take_resources.h"
#include "runtime/executor/device.h"
#include "runtime/memory/buffer.h"

namespace weft::runtime {
namespace {

constexpr const char *kInterface = "runtime/aot/weft_model.h";
// The first version's fields: all that there are up to `close`.
constexpr size_t kFirstBytes = offsetof(weft_executable, close) + sizeof(weft_executable::close);

const char *text_of(const absl::Status &status) {
  thread_local std::string text;
  if (status.ok())
    return nullptr;
  text = std::string(status.message());
  return text.c_str();
}

// What stands behind a weft_executable that give_executable() filled.
struct Given {
  std::shared_ptr<Executable> executable;
  RunContext context;
  std::unique_ptr<RunResources> resources;

  absl::Status run(const void *const *inputs, void *const *outputs) {
    std::span<const InputSpec> in_specs = executable->input_specs();
    std::span<const OutputSpec> out_specs = executable->output_specs();
    std::vector<std::shared_ptr<Buffer>> buffers;
    std::vector<Buffer *> in, out;
    auto borrow = [&](const void *data, int64_t bytes) {
      buffers.push_back(Buffer::borrow(const_cast<void *>(data), bytes, nullptr));
      return buffers.back().get();
    };
    for (size_t i = 0; i < in_specs.size(); ++i)
      in.push_back(borrow(inputs[i], in_specs[i].bytes));
    for (size_t i = 0; i < out_specs.size(); ++i)
      out.push_back(out_specs[i].donated_input != -1  ? in[out_specs[i].donated_input]
                    : out_specs[i].alias_input != -1  ? in[out_specs[i].alias_input]
                    : out_specs[i].alias_output != -1 ? out[out_specs[i].alias_output]
                                                      : borrow(outputs[i], out_specs[i].bytes));
    return executable->run(context, *resources, in, out);
  }
};

// An executable that is known by its functions in C.
class Taken : public Executable {
public:
  Taken(Program program, const weft_executable &executable)
      : program_(std::move(program)), executable_(executable) {}
  ~Taken() override {
    executable_.close(executable_.self);
  }
  std::span<const InputSpec> input_specs() const override {
    return program_.inputs;
  }
  std::span<const OutputSpec> output_specs() const override {
    return program_.outputs;
  }
  int64_t arena_bytes() const override {
    return 0; // its own affair
  }
  bool is_serial() const override {
    return false;
  }
  absl::StatusOr<std::unique_ptr<RunResources>> acquire(const RunContext &) override {
    return std::make_unique<RunResources>();
  }
  absl::Status run(const RunContext &, RunResources &, std::span<Buffer *const> inputs,
                   std::span<Buffer *const> outputs) override {
    WEFT_RETURN_IF_ERROR(check_bindings(*this, inputs, outputs));
    std::vector<const void *> in;
    std::vector<void *> out;
    for (Buffer *input : inputs)
      in.push_back(input->data());
    for (Buffer *output : outputs)
      out.push_back(output->data());
    const char *wrong = executable_.run(executable_.self, in.data(), out.data());
    return wrong ? absl::InternalError(wrong) : absl::OkStatus();
  }

private:
  Program program_;
  weft_executable executable_;
};

} // namespace

const char *give_executable(absl::StatusOr<std::shared_ptr<Executable>> made, weft_executable *to) {
  auto asked = read_struct(*to, kFirstBytes, WEFT_MODEL_VERSION, "the model's runtime", kInterface);
  if (!asked.ok())
    return text_of(asked.status());
  if (!made.ok())
    return text_of(made.status());
  auto given = std::make_unique<Given>();
  given->executable = *std::move(made);
  given->context.memory = cpu_device().memory();
  auto resources = take_resources(*given->executable, given->context);
  if (!resources.ok())
    return text_of(resources.status());
  given->resources = *std::move(resources);
  weft_executable filled{};
  filled.struct_size = sizeof filled;
  filled.version = WEFT_MODEL_VERSION;
  filled.self = given.release();
  filled.run = [](void *self, const void *const *inputs, void *const *outputs) {
    return text_of(static_cast<Given *>(self)->run(inputs, outputs));
  };
  filled.close = [](void *self) {
    delete static_cast<Given *>(self);
  };
  std::memcpy(to, &filled, std::min<size_t>(to->struct_size, sizeof filled));
  return nullptr;
}

absl::StatusOr<std::shared_ptr<Executable>>
take_executable(weft_executable_maker maker, const weft_entry_code &entry, Program program) {
  weft_executable made{};
  made.struct_size = sizeof made;
  made.version = WEFT_MODEL_VERSION;
  if (const char *wrong = maker(entry.program, entry.program_bytes, entry.device_code,
                                entry.device_code_bytes, &made))
    return absl::UnavailableError(wrong);
  WEFT_ASSIGN_OR_RETURN(auto executable, read_struct(made, kFirstBytes, WEFT_MODEL_VERSION,
                                                     "the device of the model", kInterface));
  if (!executable.run || !executable.close)
    return absl::InternalError("the device of the model made no executable");
  return std::make_shared<Taken>(std::move(program), executable);
}

} // namespace weft::runtime
