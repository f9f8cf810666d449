// A small program with every kind of instruction, for tests: c = finish(partials(a + b)), d = a,
// and a library call.
#pragma once

#include "runtime/executable/program.h"

namespace weft::runtime::testing {

inline Program sample_program() {
  Program program;
  program.target = "x86-64-v3";
  program.inputs = {{"a", DType::kFloat32, {4, 8}, 128, true, false},
                    {"b", DType::kFloat32, {4, 8}, 128, false, true}};
  program.outputs = {{"sum", DType::kFloat32, {4, 8}, 128, 0, -1, -1},
                     {"total", DType::kFloat32, {}, 4, -1, -1, -1},
                     {"b", DType::kFloat32, {4, 8}, 128, -1, 1, -1}};
  program.buffers = {{BufferKind::kInput, 0, 0, 128},  {BufferKind::kInput, 1, 0, 128},
                     {BufferKind::kOutput, 0, 0, 128}, {BufferKind::kOutput, 1, 0, 4},
                     {BufferKind::kArena, -1, 0, 16},  {BufferKind::kConstant, -1, 0, 128},
                     {BufferKind::kArena, -1, 64, 128}};
  program.symbols = {"add", "total_partials", "total_finish"};
  program.locations = {"train.cpp:3", "train.cpp:4", "train.cpp:5"};
  program.recipe = "sample";
  program.arena_bytes = 192;
  program.thread_scratch_bytes = 64;
  program.peak_bytes = 512;
  program.live_bytes_bound = 500;
  program.memory = {{{384, "test.scale", "train.cpp:5", "layer"}, {128, "add", "train.cpp:3", ""}},
                    {128, 500, 4}};
  program.constants.resize(128, std::byte{0});
  LibraryCall call;
  call.entry = "test.scale";
  call.config = {{"axes", std::vector<int64_t>{0, 1}},
                 {"by", 2.0},
                 {"mode", std::string("exact")},
                 {"times", int64_t{1}}};
  call.operands = {{5, 0, DType::kFloat32, {4, 8}, {8, 1}},
                   {6, 0, DType::kFloat32, {4, 8}, {8, 1}}};
  call.inputs = 1;
  call.location = 2;
  program.instructions = {Copy{0, 6, 128, 0}, call, Fill{4, 0, 4, 16, 1},
                          Launch{0, -1, {0, 1, 2}, -1, 4, 1, false, 0},
                          Launch{1, 2, {2, 3}, 4, 4, 1, false, 1}};
  return program;
}

} // namespace weft::runtime::testing
