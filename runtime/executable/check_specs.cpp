#include "runtime/executable/check_specs.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"

namespace weft::runtime {
namespace {

template <typename... Parts> absl::Status wrong(const Parts &...parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status check_spec(const char *what, size_t i, DType dtype, const std::vector<int64_t> &dims,
                        int64_t bytes) {
  if (!is_dtype(dtype))
    return wrong(what, " ", i, " has dtype ", static_cast<int>(dtype));
  int64_t product = byte_size(dtype);
  bool fits = true;
  bool empty = false;
  for (int64_t dim : dims) {
    fits = fits && dim >= 0;
    empty = empty || dim == 0;
  }
  for (int64_t dim : dims)
    if (!empty && fits)
      fits = !__builtin_mul_overflow(product, dim, &product);
  if (empty)
    product = 0;
  if (!fits || product > kMostBufferBytes)
    return wrong(what, " ", i, " has dims out of range");
  if (bytes != product)
    return wrong(what, " ", i, " states ", bytes, " bytes; its dims take ", product);
  return absl::OkStatus();
}

} // namespace

absl::Status check_ties(std::span<const InputSpec> inputs, std::span<const OutputSpec> outputs) {
  std::vector<bool> taken(inputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputSpec &output = outputs[i];
    int ties =
        (output.donated_input != -1) + (output.alias_input != -1) + (output.alias_output != -1);
    if (ties > 1)
      return wrong("output ", i, " is tied to more than one buffer");
    if (!is_index_or_none(output.donated_input, inputs.size()) ||
        !is_index_or_none(output.alias_input, inputs.size()) ||
        !is_index_or_none(output.alias_output, i))
      return wrong("output ", i, " is tied to a buffer that is not there");
    int32_t input = output.donated_input != -1 ? output.donated_input : output.alias_input;
    int64_t bytes = input != -1 ? inputs[input].bytes
                                : (output.alias_output != -1 ? outputs[output.alias_output].bytes
                                                             : output.bytes);
    if (bytes != output.bytes)
      return wrong("output ", i, " is tied to a buffer of another size");
    if (output.donated_input == -1)
      continue;
    if (!inputs[input].donatable)
      return wrong("output ", i, " is written into input ", input, ", which is not donatable");
    if (taken[input])
      return wrong("input ", input, " is donated to two outputs");
    taken[input] = true;
  }
  return absl::OkStatus();
}

absl::Status check_specs(std::span<const InputSpec> inputs, std::span<const OutputSpec> outputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    WEFT_RETURN_IF_ERROR(
        check_spec("input", i, inputs[i].dtype, inputs[i].dims, inputs[i].bytes));
  for (size_t i = 0; i < outputs.size(); ++i)
    WEFT_RETURN_IF_ERROR(
        check_spec("output", i, outputs[i].dtype, outputs[i].dims, outputs[i].bytes));
  return check_ties(inputs, outputs);
}

} // namespace weft::runtime
