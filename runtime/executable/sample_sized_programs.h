// A small program for a range of sizes, for tests.
#pragma once

#include <cstring>

#include "runtime/executable/sized_programs.h"

namespace weft::runtime::testing {

// y = k(x, the size) for rows of 4 floats.
inline Program sample_rows(int64_t size) {
  Program program;
  program.symbols = {"k"};
  int64_t bytes = size * 16;
  program.inputs.push_back({"x", DType::kFloat32, {size, 4}, bytes, false, false});
  program.outputs.push_back({"y", DType::kFloat32, {size, 4}, bytes, -1, -1, -1});
  program.constants.resize(64);
  std::memcpy(program.constants.data(), &size, sizeof size);
  program.buffers = {{BufferKind::kInput, 0, 0, bytes},
                     {BufferKind::kConstant, -1, 0, 8},
                     {BufferKind::kOutput, 0, 0, bytes}};
  Launch launch;
  launch.kernel = 0;
  launch.operands = {0, 1, 2};
  launch.count = size;
  program.instructions.emplace_back(launch);
  return program;
}

inline SizeTable sample_sizes(int64_t largest) {
  using Place = SizeTable::Place;
  SizeTable table;
  table.names = {"batch"};
  table.entries = {{Place::kInputDim, 0, 0, 0, {1, {0}}, largest},
                   {Place::kOutputDim, 0, 0, 0, {1, {0}}, largest},
                   {Place::kCount, 0, 0, 0, {1, {0}}, largest},
                   {Place::kConstant, 0, 0, 0, {1, {0}}, largest}};
  return table;
}

// 1 alone, up to 6 and up to 32.
inline SizedPrograms sample_sized_programs() {
  SizedPrograms programs;
  programs.name = "batch";
  programs.parts.push_back({1, 1, sample_rows(1), {}});
  programs.parts.push_back({2, 6, sample_rows(6), sample_sizes(6)});
  programs.parts.push_back({7, 32, sample_rows(32), sample_sizes(32)});
  return programs;
}

} // namespace weft::runtime::testing
