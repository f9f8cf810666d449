#include "runtime/executable/size_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace weft::runtime {
namespace {

int64_t bytes_of(DType dtype, const std::vector<int64_t> &dims) {
  int64_t bytes = byte_size(dtype);
  for (int64_t dim : dims) bytes *= dim;
  return bytes;
}

} // namespace

absl::StatusOr<Program> at_sizes(const Program &program, const SizeTable &table, const Sizes &sizes) {
  std::vector<int64_t> values;
  for (const std::string &name : table.names) {
    auto found = std::find_if(sizes.begin(), sizes.end(), [&](const auto &each) { return each.first == name; });
    if (found == sizes.end()) return absl::InvalidArgumentError(absl::StrCat("the program needs the size ", name));
    values.push_back(found->second);
  }
  Program sized = program;
  for (const SizeTable::Entry &entry : table.entries) {
    int64_t value = entry.value.coefficient;
    for (int32_t name : entry.value.names)
      if (__builtin_mul_overflow(value, values[name], &value)) return absl::InvalidArgumentError("a size exceeds 2^63");
    if (value < 1 || value > entry.largest)
      return absl::InvalidArgumentError(absl::StrCat("a size is ", value, ", but the program was planned for 1 to ", entry.largest));
    switch (entry.place) {
    case SizeTable::Place::kInputDim:
      sized.inputs[entry.index].dims[entry.dim] = value;
      break;
    case SizeTable::Place::kOutputDim:
      sized.outputs[entry.index].dims[entry.dim] = value;
      break;
    case SizeTable::Place::kOperandDim: {
      TensorRef &operand = std::get<LibraryCall>(sized.instructions[entry.index]).operands[entry.operand];
      operand.dims[entry.dim] = value;
      int64_t stride = 1;
      for (size_t i = operand.dims.size(); i-- > 0; stride *= operand.dims[i]) operand.strides[i] = stride;
      break;
    }
    case SizeTable::Place::kCount: {
      Launch &launch = std::get<Launch>(sized.instructions[entry.index]);
      launch.count = static_cast<int64_t>(static_cast<__int128>(launch.count) * value / entry.largest);
      break;
    }
    }
  }
  // Inputs and outputs are as large as they are; the arena is the largest program's.
  for (size_t i = 0; i < sized.inputs.size(); ++i) sized.inputs[i].bytes = bytes_of(sized.inputs[i].dtype, sized.inputs[i].dims);
  for (size_t i = 0; i < sized.outputs.size(); ++i) sized.outputs[i].bytes = bytes_of(sized.outputs[i].dtype, sized.outputs[i].dims);
  for (BufferEntry &entry : sized.buffers) {
    if (entry.kind == BufferKind::kInput) entry.bytes = std::min(entry.bytes, sized.inputs[entry.index].bytes - entry.offset);
    if (entry.kind == BufferKind::kOutput) entry.bytes = std::min(entry.bytes, sized.outputs[entry.index].bytes - entry.offset);
  }
  if (absl::Status status = validate(sized); !status.ok()) return status;
  return sized;
}

} // namespace weft::runtime
