#include "runtime/executable/size_table.h"

#include <gtest/gtest.h>

namespace weft::runtime {
namespace {

// y = k(x) over 64 rows of 4 floats, then a call of a library on what lies in the arena.
Program sample() {
  Program program;
  program.symbols = {"k"};
  program.inputs.push_back({"x", DType::kFloat32, {64, 4}, 1024, false, false});
  OutputSpec output;
  output.dtype = DType::kFloat32;
  output.dims = {256};
  output.bytes = 1024;
  program.outputs.push_back(output);
  program.arena_bytes = 1024;
  program.buffers = {{BufferKind::kInput, 0, 0, 1024},
                     {BufferKind::kArena, -1, 0, 1024},
                     {BufferKind::kOutput, 0, 0, 1024}};
  Launch launch;
  launch.kernel = 0;
  launch.operands = {0, 1};
  launch.count = 128; // two a row
  launch.sizes = {7, 192};
  program.instructions.emplace_back(launch);
  LibraryCall call;
  call.entry = "copy";
  call.inputs = 1;
  call.operands = {{1, 0, DType::kFloat32, {64, 4}, {4, 1}},
                   {2, 0, DType::kFloat32, {64, 4}, {4, 1}}};
  program.instructions.emplace_back(call);
  return program;
}

SizeTable table() {
  SizeTable table;
  table.names = {"n"};
  using Place = SizeTable::Place;
  table.entries = {
      {Place::kInputDim, 0, 0, 0, {1, {0}}, 64},   {Place::kOutputDim, 0, 0, 0, {4, {0}}, 256},
      {Place::kCount, 0, 0, 0, {1, {0}}, 64},      {Place::kOperandDim, 1, 0, 0, {1, {0}}, 64},
      {Place::kOperandDim, 1, 1, 0, {1, {0}}, 64}, {Place::kLaunchSize, 0, 1, 0, {3, {0}}, 192}};
  return table;
}

TEST(SizeTable, AProgramAtASmallerSize) {
  ASSERT_TRUE(validate(sample()).ok());
  auto sized = at_sizes(sample(), table(), {{"n", 24}});
  ASSERT_TRUE(sized.ok()) << sized.status();
  EXPECT_EQ(sized->inputs[0].dims, (std::vector<int64_t>{24, 4}));
  EXPECT_EQ(sized->inputs[0].bytes, 384);
  EXPECT_EQ(sized->outputs[0].dims, (std::vector<int64_t>{96}));
  EXPECT_EQ(sized->outputs[0].bytes, 384);
  EXPECT_EQ(std::get<Launch>(sized->instructions[0]).count, 48);
  EXPECT_EQ(std::get<Launch>(sized->instructions[0]).sizes, (std::vector<int64_t>{7, 72}));
  const LibraryCall &call = std::get<LibraryCall>(sized->instructions[1]);
  EXPECT_EQ(call.operands[1].dims, (std::vector<int64_t>{24, 4}));
  EXPECT_EQ(call.operands[1].strides, (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(sized->arena_bytes, 1024);
  EXPECT_TRUE(validate(*sized).ok());
}

TEST(SizeTable, TheLargestSizeIsTheProgramItself) {
  auto sized = at_sizes(sample(), table(), {{"n", 64}, {"unused", 3}});
  ASSERT_TRUE(sized.ok());
  EXPECT_EQ(*serialize(*sized), *serialize(sample()));
}

TEST(SizeTable, SurvivesTheWayThroughBytes) {
  ASSERT_TRUE(validate(table(), sample()).ok());
  const std::string bytes = serialize(table());
  auto as_bytes = [](const std::string &text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  };
  auto read = deserialize_sizes(as_bytes(bytes), sample());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->names, table().names);
  EXPECT_EQ(serialize(*read), bytes);
  // Whatever is changed: a table that fits the program, or none.
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] ^= 0x41;
    if (auto other = deserialize_sizes(as_bytes(changed), sample()); other.ok())
      EXPECT_TRUE(validate(*other, sample()).ok());
    EXPECT_EQ(deserialize_sizes(as_bytes(bytes.substr(0, i)), sample()).status().code(),
              absl::StatusCode::kDataLoss)
        << "cut at " << i;
  }
}

TEST(SizeTable, OfAnotherProgramIsRefused) {
  using Place = SizeTable::Place;
  for (SizeTable::Entry wrong : {SizeTable::Entry{Place::kInputDim, 1, 0, 0, {1, {0}}, 64},
                                 {Place::kInputDim, 0, 0, 2, {1, {0}}, 64},
                                 {Place::kInputDim, 0, 0, 0, {1, {0}}, 32},
                                 {Place::kInputDim, 0, 0, 0, {1, {1}}, 64},
                                 {Place::kInputDim, 0, 0, 0, {0, {0}}, 64},
                                 {Place::kCount, 1, 0, 0, {1, {0}}, 64},
                                 {Place::kConstant, 0, 0, 0, {1, {0}}, 64},
                                 {Place::kConstant, -1, 0, 0, {1, {0}}, 64},
                                 {Place::kCount, 2, 0, 0, {1, {0}}, 64},
                                 {Place::kLaunchSize, 0, 2, 0, {3, {0}}, 192},
                                 {Place::kLaunchSize, 0, 0, 0, {1, {0}}, 64},
                                 {Place::kLaunchSize, 1, 1, 0, {3, {0}}, 192},
                                 {Place::kOperandDim, 0, 0, 0, {1, {0}}, 64},
                                 {Place::kOperandDim, 1, 2, 0, {1, {0}}, 64},
                                 {Place::kOutputDim, -1, 0, 0, {4, {0}}, 256}}) {
    SizeTable other = table();
    other.entries.push_back(wrong);
    EXPECT_FALSE(validate(other, sample()).ok());
  }
}

TEST(SizeTable, RefusesWhatWasNotPlanned) {
  EXPECT_EQ(at_sizes(sample(), table(), {{"n", 65}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(at_sizes(sample(), table(), {{"n", 0}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(at_sizes(sample(), table(), {{"m", 4}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(at_sizes(sample(), table(), {{"n", INT64_MAX}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Where a tensor has no elements, the product of its other dims may be any.
TEST(SizeTable, TensorsWithoutElements) {
  constexpr int64_t kLong = int64_t{1} << 40;
  Program program = sample();
  program.inputs.push_back({"e", DType::kFloat32, {64, kLong, kLong, 0}, 0, false, false});
  auto &operand = std::get<LibraryCall>(program.instructions[1]).operands[0];
  operand.dims = {64, 0, 4};
  SizeTable sizes = table();
  sizes.entries.push_back({SizeTable::Place::kInputDim, 1, 0, 0, {1, {0}}, 64});
  ASSERT_TRUE(validate(sizes, program).ok());
  operand.strides = {0, 4, 1};
  ASSERT_TRUE(validate(program).ok());
  auto sized = at_sizes(program, sizes, {{"n", 24}});
  ASSERT_TRUE(sized.ok()) << sized.status();
  EXPECT_EQ(sized->inputs[1].bytes, 0);
  EXPECT_EQ(sized->inputs[1].dims[0], 24);
  // Strides are numbers all the same.
  operand.dims = {64, 0, kLong, kLong};
  operand.strides = {0, 0, kLong, 1};
  ASSERT_TRUE(validate(program).ok());
  EXPECT_EQ(at_sizes(program, sizes, {{"n", 24}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

} // namespace
} // namespace weft::runtime
