// Entries of the disk cache: a plan and objects of code, under a checksum that is made right before
// they are read. The cache's own frame (a SHA-256 over everything) lets no altered entry through to
// this parser.
#include <cstring>

#include "compiler/link/Artifact.h"
#include "runtime/core/byte_stream.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"

namespace weft::fuzz {

constexpr size_t kChecksumAt = 12, kHeaderBytes = 20;

std::vector<std::string> seeds() {
  compiler::Artifact artifact;
  std::vector<std::string> all = {compiler::writeArtifact(artifact)};
  artifact.program = "a plan";
  for (const char *object : {"",
                             "\x7f"
                             "ELF code",
                             "more code"})
    artifact.objects.push_back(std::make_shared<const std::string>(object));
  all.push_back(compiler::writeArtifact(artifact));
  return all;
}

bool parse(const uint8_t *data, size_t size) {
  std::vector<char> bytes(data, data + size);
  if (size >= kHeaderBytes) {
    uint64_t sum = runtime::checksum(std::as_bytes(std::span(bytes).subspan(kHeaderBytes)));
    std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
  }
  auto artifact = compiler::readArtifact(bytes);
  if (artifact.ok() && compiler::writeArtifact(*artifact).size() > size)
    std::abort();
  return artifact.ok();
}

// An object of no bytes takes 8 in the file, and some 100 as a shared string.
int64_t allowed_bytes(size_t size) {
  return 24 * static_cast<int64_t>(size) + 8192;
}

} // namespace weft::fuzz
