// What an entry of a model runs: one program, or several that together serve a range of sizes.
//
// A size names the leading dim of inputs. Each part serves the sizes from `low` to `high` by its
// table, or one size without a table: 1 is a program of its own, since it means broadcasting, and
// where a library takes an op from some size on, a part ends before it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/executable/program.h"
#include "runtime/executable/size_table.h"

namespace weft::runtime {

struct SizedPrograms {
  struct Part {
    int64_t low = 0, high = 0; // both included
    Program program;           // at the size `high`
    SizeTable sizes;           // of what is smaller at smaller sizes; it has one name at most
  };
  std::string name;        // of the size; empty: there is one part, which has no size
  std::vector<Part> parts; // by size, each beginning where the one before it ends

  bool varies() const {
    return !name.empty();
  }
  int64_t low() const {
    return parts.front().low;
  }
  int64_t high() const {
    return parts.back().high;
  }
  // At the largest size.
  const Program &largest() const {
    return parts.back().program;
  }
  // That which serves the size; null where it is out of range.
  const Part *part_of(int64_t size) const;
  // The program for a size; `size` does not matter where nothing varies. OutOfRange names the
  // range.
  absl::StatusOr<Program> at(int64_t size) const;
};

// A single program without a size is written as serialize(Program) writes it, so that it is read
// back by either function. InvalidArgument for parts that do not follow each other, or that differ
// in the number, names or dtypes of inputs and outputs.
absl::StatusOr<std::string> serialize(const SizedPrograms &programs);
// The inverse; errors as deserialize(), of any part.
absl::StatusOr<SizedPrograms> deserialize_sized(std::span<const std::byte> bytes);

// "float32[1..64, 3]", where `least` and `dims` are the smallest and the largest sizes.
std::string range_text(DType dtype, std::span<const int64_t> least, std::span<const int64_t> dims);

} // namespace weft::runtime
