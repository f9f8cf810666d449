// What the specs of a program or an executable must be, whoever wrote them.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>

#include "absl/status/status.h"
#include "runtime/executable/program.h"

namespace weft::runtime {

inline bool is_index_or_none(int32_t index, size_t size) {
  return index == -1 || (index >= 0 && static_cast<size_t>(index) < size);
}
inline bool is_dtype(DType dtype) {
  return static_cast<size_t>(dtype) < std::size(kDTypes);
}

// That each output is tied to one buffer at most, of its size: an input that is there, donatable
// where it is written and not written by another output, or an earlier output.
absl::Status check_ties(std::span<const InputSpec> inputs, std::span<const OutputSpec> outputs);

// The same, and that dtypes are known, dims in range, and bytes what they take.
absl::Status check_specs(std::span<const InputSpec> inputs, std::span<const OutputSpec> outputs);

} // namespace weft::runtime
