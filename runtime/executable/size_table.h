// A program for many sizes is planned for the largest ones. This table says which of its numbers
// are smaller at smaller sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/executable/program.h"

namespace weft::runtime {

struct SizeTable {
  // coefficient * the product of named sizes.
  struct Product {
    int64_t coefficient = 1;
    std::vector<int32_t> names; // into SizeTable::names
  };
  enum class Place : uint8_t {
    kInputDim,   // dims[dim] of inputs[index]
    kOutputDim,  // dims[dim] of outputs[index]
    kOperandDim, // dims[dim] of operand `operand` of instructions[index], a library call; strides
                 // follow, row-major
    kCount,    // the count of instructions[index], a launch: as large a part of it as `value` is of
               // `largest`
    kConstant, // the int64 at byte `index` of the constants
    kLaunchSize, // sizes[operand] of instructions[index], a launch
  };
  struct Entry {
    Place place = Place::kInputDim;
    int32_t index = 0, operand = 0, dim = 0;
    Product value = {};
    int64_t largest = 0; // what the program has, or of kCount: the value at the largest sizes
  };
  std::vector<std::string> names;
  std::vector<Entry> entries;
};

// The value of each name.
using Sizes = std::vector<std::pair<std::string, int64_t>>;

// The program at these sizes: other counts, dims and bytes, the same buffers and offsets.
// InvalidArgument where a name has no size, or one larger than the program was planned for.
absl::StatusOr<Program> at_sizes(const Program &program, const SizeTable &table,
                                 const Sizes &sizes);

// Ok, or InvalidArgument with the first entry that does not stand for a number of this program,
// planned for the largest sizes.
absl::Status validate(const SizeTable &table, const Program &program);

// A table as bytes, in program_io.cpp; DataLoss for bytes that are no table of the program.
std::string serialize(const SizeTable &table);
absl::StatusOr<SizeTable> deserialize_sizes(std::span<const std::byte> bytes,
                                            const Program &program);

} // namespace weft::runtime
