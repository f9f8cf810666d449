#include "runtime/executable/program.h"

#include <gtest/gtest.h>

#include <functional>

#include "runtime/core/byte_stream.h"
#include "runtime/executable/sample_program.h"

namespace weft::runtime {
namespace {

std::span<const std::byte> bytes_of(const std::string &text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Program, SurvivesSerialization) {
  Program program = testing::sample_program();
  absl::StatusOr<std::string> bytes = serialize(program);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  absl::StatusOr<Program> read = deserialize(bytes_of(*bytes));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->target, program.target);
  EXPECT_EQ(read->symbols, program.symbols);
  EXPECT_EQ(read->locations, program.locations);
  EXPECT_EQ(read->constants, program.constants);
  ASSERT_EQ(read->inputs.size(), 2u);
  EXPECT_EQ(read->inputs[0].dims, program.inputs[0].dims);
  EXPECT_TRUE(read->inputs[0].donatable);
  EXPECT_TRUE(read->inputs[1].stable);
  EXPECT_EQ(read->outputs[0].donated_input, 0);
  EXPECT_EQ(read->outputs[2].alias_input, 1);
  ASSERT_EQ(read->instructions.size(), 5u);
  const LibraryCall &call = std::get<LibraryCall>(read->instructions[1]);
  EXPECT_EQ(call.config, std::get<LibraryCall>(program.instructions[1]).config);
  EXPECT_EQ(call.operands[1].strides, (std::vector<int64_t>{8, 1}));
  EXPECT_EQ(read->arena_bytes, 192);
  EXPECT_EQ(read->live_bytes_bound, 500);
  ASSERT_EQ(read->memory.peak_holders.size(), 2u);
  EXPECT_EQ(read->memory.peak_holders[0].module, "layer");
  EXPECT_EQ(read->memory.live_bytes, (std::vector<int64_t>{128, 500, 4}));
  // Every field is written: writing what was read gives the same bytes.
  EXPECT_EQ(*serialize(*read), *bytes);
}

TEST(Program, ConstantsLieAligned) {
  Program program = testing::sample_program();
  program.constants[0] = std::byte{0xab};
  std::string bytes = *serialize(program);
  EXPECT_EQ(bytes.size() % 64, 0u);
  EXPECT_EQ(static_cast<unsigned char>(bytes[bytes.size() - 128]), 0xab);
}

TEST(Program, EveryAlteredByteIsAnError) {
  std::string bytes = *serialize(testing::sample_program());
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string altered = bytes;
      altered[i] = static_cast<char>(altered[i] ^ flip);
      EXPECT_FALSE(deserialize(bytes_of(altered)).ok()) << "byte " << i << " flipped by " << flip;
    }
}

TEST(Program, EveryTruncationAndExtensionIsAnError) {
  std::string bytes = *serialize(testing::sample_program());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(deserialize(bytes_of(bytes.substr(0, size))).ok()) << size;
  EXPECT_FALSE(deserialize(bytes_of(bytes + '\0')).ok());
}

// Altered bytes under a matching size and checksum: the reader itself must hold.
TEST(Program, ReaderSurvivesAlteredFieldsUnderARightChecksum) {
  constexpr size_t kHeader = 32;
  std::string bytes = *serialize(testing::sample_program());
  int accepted = 0;
  auto reseal = [](std::string &altered) {
    uint64_t size = altered.size();
    std::memcpy(altered.data() + 16, &size, 8);
    uint64_t sum = checksum(bytes_of(altered).subspan(kHeader));
    std::memcpy(altered.data() + 24, &sum, 8);
  };
  for (size_t i = kHeader; i < bytes.size(); ++i)
    for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string altered = bytes;
      altered[i] = static_cast<char>(value);
      reseal(altered);
      absl::StatusOr<Program> read = deserialize(bytes_of(altered));
      if (read.ok()) {
        EXPECT_TRUE(validate(*read).ok());
        ++accepted;
      }
    }
  EXPECT_GT(accepted, 0); // names and constants may hold anything
  for (size_t size = kHeader; size < bytes.size(); ++size) {
    std::string cut = bytes.substr(0, size);
    reseal(cut);
    EXPECT_FALSE(deserialize(bytes_of(cut)).ok()) << size;
  }
}

TEST(Program, OtherVersionIsNamed) {
  std::string bytes = *serialize(testing::sample_program());
  bytes[8] = 77;
  absl::Status status = deserialize(bytes_of(bytes)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.ToString().find("version 77"), std::string::npos) << status;
}

TEST(Program, InvalidProgramsAreRefused) {
  const std::vector<std::pair<const char *, std::function<void(Program &)>>> faults = {
      {"no such kernel", [](Program &p) { std::get<Launch>(p.instructions[3]).kernel = 3; }},
      {"a size is out of range: -1", [](Program &p) { p.memory.live_bytes[1] = -1; }},
      {"a size is out of range: -2", [](Program &p) { p.memory.peak_holders[0].bytes = -2; }},
      {"no such finish", [](Program &p) { std::get<Launch>(p.instructions[4]).finish = -2; }},
      {"no such operand", [](Program &p) { std::get<Launch>(p.instructions[3]).operands[1] = 7; }},
      {"grain", [](Program &p) { std::get<Launch>(p.instructions[3]).grain = 0; }},
      {"location", [](Program &p) { std::get<Launch>(p.instructions[3]).location = 3; }},
      {"beyond its buffer",
       [](Program &p) { std::get<LibraryCall>(p.instructions[1]).operands[0].strides[0] = 9; }},
      {"beyond its buffer",
       [](Program &p) { std::get<LibraryCall>(p.instructions[1]).operands[0].strides[1] = -1; }},
      {"out of range",
       [](Program &p) {
         std::get<LibraryCall>(p.instructions[1]).operands[0].strides[0] = INT64_MAX / 2;
       }},
      {"not sorted",
       [](Program &p) {
         std::swap(std::get<LibraryCall>(p.instructions[1]).config[0],
                   std::get<LibraryCall>(p.instructions[1]).config[1]);
       }},
      {"not to be written", [](Program &p) { std::get<Copy>(p.instructions[0]).target = 5; }},
      {"not to be written", [](Program &p) { std::get<Fill>(p.instructions[2]).target = 1; }},
      {"more bytes", [](Program &p) { std::get<Copy>(p.instructions[0]).bytes = 129; }},
      {"a part of an element", [](Program &p) { std::get<Fill>(p.instructions[2]).bytes = 15; }},
      {"not donatable", [](Program &p) { p.inputs[0].donatable = false; }},
      {"more than one buffer", [](Program &p) { p.outputs[0].alias_input = 1; }},
      {"its dims take", [](Program &p) { p.inputs[1].bytes = 64; }},
      {"dims out of range", [](Program &p) { p.inputs[1].dims = {INT64_MAX, 4}; }},
      {"192 bytes", [](Program &p) { p.buffers[6].offset = 128; }},
      {"which is not there", [](Program &p) { p.buffers[0].index = 2; }},
      {"a size is out of range", [](Program &p) { p.arena_bytes = -1; }},
  };
  ASSERT_TRUE(validate(testing::sample_program()).ok());
  for (const auto &[message, fault] : faults) {
    Program program = testing::sample_program();
    fault(program);
    absl::Status status = validate(program);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_NE(status.ToString().find(message), std::string::npos) << status;
    EXPECT_FALSE(serialize(program).ok());
  }
}

TEST(Program, SerialMeansNoThreadsAndNoLibrary) {
  Program program = testing::sample_program();
  EXPECT_FALSE(is_serial(program));
  EXPECT_FALSE(is_serial(program, /*one_thread=*/true)); // it calls a library
  program.instructions.erase(program.instructions.begin() + 1);
  EXPECT_FALSE(is_serial(program));
  EXPECT_TRUE(is_serial(program, /*one_thread=*/true));
  for (Instruction &instruction : program.instructions)
    if (Launch *launch = std::get_if<Launch>(&instruction))
      launch->serial = true;
  EXPECT_TRUE(is_serial(program));
  program.state_bytes = 8;
  EXPECT_FALSE(is_serial(program));
}

} // namespace
} // namespace weft::runtime
