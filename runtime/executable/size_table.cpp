#include "runtime/executable/size_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"

namespace weft::runtime {
namespace {

// Of dims that are at most a valid program's: where one is 0, the others may have any product.
int64_t bytes_of(DType dtype, const std::vector<int64_t> &dims) {
  if (std::ranges::find(dims, 0) != dims.end())
    return 0;
  int64_t bytes = byte_size(dtype);
  for (int64_t dim : dims)
    bytes *= dim;
  return bytes;
}

// Whether the strides of these dims, row-major, are numbers.
bool set_row_major(TensorRef &operand) {
  int64_t stride = 1;
  for (size_t i = operand.dims.size(); i-- > 0;) {
    operand.strides[i] = stride;
    if (i > 0 && __builtin_mul_overflow(stride, operand.dims[i], &stride))
      return false;
  }
  return true;
}

bool is_index(int32_t index, size_t size) {
  return index >= 0 && static_cast<size_t>(index) < size;
}

// The dim or size that an entry stands for; null where there is none.
const int64_t *dim_of(const SizeTable::Entry &entry, const Program &program) {
  const std::vector<int64_t> *dims = nullptr;
  if (entry.place == SizeTable::Place::kInputDim && is_index(entry.index, program.inputs.size()))
    dims = &program.inputs[entry.index].dims;
  if (entry.place == SizeTable::Place::kOutputDim && is_index(entry.index, program.outputs.size()))
    dims = &program.outputs[entry.index].dims;
  if (entry.place == SizeTable::Place::kOperandDim &&
      is_index(entry.index, program.instructions.size()))
    if (const auto *call = std::get_if<LibraryCall>(&program.instructions[entry.index]))
      if (is_index(entry.operand, call->operands.size()))
        dims = &call->operands[entry.operand].dims;
  if (entry.place == SizeTable::Place::kLaunchSize &&
      is_index(entry.index, program.instructions.size()))
    if (const auto *launch = std::get_if<Launch>(&program.instructions[entry.index]))
      return is_index(entry.operand, launch->sizes.size()) ? &launch->sizes[entry.operand]
                                                           : nullptr;
  return dims && is_index(entry.dim, dims->size()) ? &(*dims)[entry.dim] : nullptr;
}

} // namespace

absl::Status validate(const SizeTable &table, const Program &program) {
  for (size_t i = 0; i < table.entries.size(); ++i) {
    const SizeTable::Entry &entry = table.entries[i];
    auto invalid = [&](const char *what) {
      return absl::InvalidArgumentError(absl::StrCat("entry ", i, " of a table of sizes ", what));
    };
    if (entry.largest < 1 || entry.value.coefficient < 1)
      return invalid("is less than 1");
    for (int32_t name : entry.value.names)
      if (!is_index(name, table.names.size()))
        return invalid("has a name that is not there");
    if (entry.place == SizeTable::Place::kCount) {
      if (!is_index(entry.index, program.instructions.size()) ||
          !std::holds_alternative<Launch>(program.instructions[entry.index]))
        return invalid("is the count of no launch");
    } else if (entry.place == SizeTable::Place::kConstant) {
      int64_t constant = 0;
      if (entry.index < 0 ||
          static_cast<size_t>(entry.index) + sizeof constant > program.constants.size())
        return invalid("is no constant of the program");
      std::memcpy(&constant, program.constants.data() + entry.index, sizeof constant);
      if (constant != entry.largest)
        return invalid("is no constant of the program");
    } else {
      const int64_t *dim = dim_of(entry, program);
      if (!dim || *dim != entry.largest)
        return invalid("is no dim of the program");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Program> at_sizes(const Program &program, const SizeTable &table,
                                 const Sizes &sizes) {
  std::vector<int64_t> values;
  for (const std::string &name : table.names) {
    auto found = std::find_if(sizes.begin(), sizes.end(),
                              [&](const auto &each) { return each.first == name; });
    if (found == sizes.end())
      return absl::InvalidArgumentError(absl::StrCat("the program needs the size ", name));
    values.push_back(found->second);
  }
  Program sized = program;
  for (const SizeTable::Entry &entry : table.entries) {
    int64_t value = entry.value.coefficient;
    for (int32_t name : entry.value.names)
      if (__builtin_mul_overflow(value, values[name], &value))
        return absl::InvalidArgumentError("a size exceeds 2^63");
    if (value < 1 || value > entry.largest)
      return absl::InvalidArgumentError(absl::StrCat(
          "a size is ", value, ", but the program was planned for 1 to ", entry.largest));
    switch (entry.place) {
    case SizeTable::Place::kInputDim:
      sized.inputs[entry.index].dims[entry.dim] = value;
      break;
    case SizeTable::Place::kOutputDim:
      sized.outputs[entry.index].dims[entry.dim] = value;
      break;
    case SizeTable::Place::kOperandDim: {
      TensorRef &operand =
          std::get<LibraryCall>(sized.instructions[entry.index]).operands[entry.operand];
      operand.dims[entry.dim] = value;
      if (!set_row_major(operand))
        return absl::InvalidArgumentError("the strides of an operand exceed 2^63");
      break;
    }
    case SizeTable::Place::kCount: {
      Launch &launch = std::get<Launch>(sized.instructions[entry.index]);
      launch.count =
          static_cast<int64_t>(static_cast<__int128>(launch.count) * value / entry.largest);
      break;
    }
    case SizeTable::Place::kLaunchSize:
      std::get<Launch>(sized.instructions[entry.index]).sizes[entry.operand] = value;
      break;
    case SizeTable::Place::kConstant:
      std::memcpy(sized.constants.data() + entry.index, &value, sizeof value);
      break;
    }
  }
  // Inputs and outputs have their actual sizes; the arena is that of the largest sizes.
  for (size_t i = 0; i < sized.inputs.size(); ++i)
    sized.inputs[i].bytes = bytes_of(sized.inputs[i].dtype, sized.inputs[i].dims);
  for (size_t i = 0; i < sized.outputs.size(); ++i)
    sized.outputs[i].bytes = bytes_of(sized.outputs[i].dtype, sized.outputs[i].dims);
  for (BufferEntry &entry : sized.buffers) {
    if (entry.kind == BufferKind::kInput)
      entry.bytes = std::min(entry.bytes, sized.inputs[entry.index].bytes - entry.offset);
    if (entry.kind == BufferKind::kOutput)
      entry.bytes = std::min(entry.bytes, sized.outputs[entry.index].bytes - entry.offset);
  }
  WEFT_RETURN_IF_ERROR(validate(sized));
  return sized;
}

} // namespace weft::runtime
