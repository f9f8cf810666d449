#include "runtime/executable/executable.h"

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"
#include "runtime/executable/take_resources.h"
#include "runtime/memory/buffer.h"

namespace weft::runtime {

absl::StatusOr<std::shared_ptr<Executable>> Executable::at_sizes(const Sizes &) const {
  return absl::UnimplementedError("the backend does not run programs for many sizes");
}

absl::Status Executable::acquire_and_run(const RunContext &context, std::span<Buffer *const> inputs,
                                         std::span<Buffer *const> outputs) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<RunResources> resources,
                        take_resources(*this, context));
  WEFT_RETURN_IF_ERROR(prepare(context, *resources, inputs));
  return run(context, *resources, inputs, outputs);
}

absl::Status check_bindings(const Executable &executable, std::span<Buffer *const> inputs,
                            std::span<Buffer *const> outputs) {
  std::span<const InputSpec> in = executable.input_specs();
  std::span<const OutputSpec> out = executable.output_specs();
  if (inputs.size() != in.size() || outputs.size() != out.size())
    return absl::InvalidArgumentError(
        absl::StrCat("the program takes ", in.size(), " inputs and gives ", out.size(),
                     " outputs; there are ", inputs.size(), " and ", outputs.size(), " buffers"));
  auto must_not_be_written = [](const char *what, size_t i, const std::string &name) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", i, " '", name,
                     "' is written by the program, but bound to memory "
                     "that must not be"));
  };
  for (size_t i = 0; i < in.size(); ++i) {
    if (inputs[i] == nullptr || inputs[i]->bytes() < in[i].bytes)
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " '", in[i].name, "' takes ", in[i].bytes,
                       " bytes; its buffer has ", inputs[i] == nullptr ? 0 : inputs[i]->bytes()));
    if (in[i].donatable && inputs[i]->is_constant())
      return must_not_be_written("input", i, in[i].name);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (outputs[i] == nullptr || outputs[i]->bytes() < out[i].bytes)
      return absl::InvalidArgumentError(
          absl::StrCat("output ", i, " '", out[i].name, "' takes ", out[i].bytes,
                       " bytes; its buffer has ", outputs[i] == nullptr ? 0 : outputs[i]->bytes()));
    const Buffer *tied = out[i].donated_input != -1  ? inputs[out[i].donated_input]
                         : out[i].alias_input != -1  ? inputs[out[i].alias_input]
                         : out[i].alias_output != -1 ? outputs[out[i].alias_output]
                                                     : outputs[i];
    if (outputs[i] != tied)
      return absl::InvalidArgumentError(absl::StrCat(
          "output ", i, " '", out[i].name, "' is not bound to the buffer that it is tied to"));
    if (outputs[i]->is_constant() && out[i].alias_input == -1 && out[i].alias_output == -1)
      return must_not_be_written("output", i, out[i].name);
  }
  return absl::OkStatus();
}

} // namespace weft::runtime
