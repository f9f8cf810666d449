// Compiled plans. Their checksum is made right before they are read: damage that it shows is no
// test of what lies behind it.
#include <cstdlib>
#include <cstring>

#include "runtime/core/byte_stream.h"
#include "runtime/executable/program.h"
#include "runtime/executable/sample_program.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"

namespace weft::fuzz {

constexpr size_t kHeaderBytes = 32, kSizeAt = 16, kChecksumAt = 24;

std::vector<std::string> seeds() {
  runtime::Program full = runtime::testing::sample_program(), inputs = full, empty;
  inputs.instructions.clear();
  std::vector<std::string> all;
  for (const runtime::Program &program : {full, inputs, empty}) {
    auto bytes = runtime::serialize(program);
    if (!bytes.ok())
      std::abort();
    all.push_back(*std::move(bytes));
  }
  return all;
}

bool parse(const uint8_t *data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0)
    std::memcpy(bytes.data(), data, size);
  if (size >= kHeaderBytes) {
    uint64_t whole = size, sum = runtime::checksum(std::span(bytes).subspan(kHeaderBytes));
    std::memcpy(bytes.data() + kSizeAt, &whole, sizeof whole);
    std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
  }
  auto program = runtime::deserialize(bytes);
  // What is accepted is a valid program, and comes back from its own bytes.
  if (!program.ok())
    return false;
  auto again = runtime::serialize(*program);
  if (!again.ok() || !runtime::deserialize(std::as_bytes(std::span(*again))).ok())
    std::abort();
  return true;
}

// A field of some bytes becomes a struct of some ten times as many; twice, as the program is
// written and read again.
int64_t allowed_bytes(size_t size) {
  return 64 * static_cast<int64_t>(size) + 8192;
}

} // namespace weft::fuzz
