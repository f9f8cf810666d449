#include "compiler/link/Artifact.h"

#include "runtime/core/byte_stream.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {
namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'C', 'O', 'D', 'E'};
// Magic, version, and the checksum of all that follows.
constexpr size_t kHeaderBytes = sizeof kMagic + sizeof(uint32_t) + sizeof(uint64_t);

std::span<const std::byte> asBytes(llvm::ArrayRef<char> chars) {
  return {reinterpret_cast<const std::byte *>(chars.data()), chars.size()};
}

} // namespace

std::string writeArtifact(const Artifact &artifact) {
  runtime::ByteWriter body;
  body.string(artifact.program);
  body.string(artifact.sizes);
  body.scalar<uint64_t>(artifact.objects.size());
  for (const auto &object : artifact.objects)
    body.string(*object);
  runtime::ByteWriter all;
  all.raw(kMagic, sizeof kMagic);
  all.scalar(kArtifactVersion);
  all.scalar(runtime::checksum(asBytes({body.data(), body.size()})));
  all.raw(body.data(), body.size());
  return all.take();
}

absl::StatusOr<Artifact> readArtifact(llvm::ArrayRef<char> bytes) {
  if (bytes.size() < kHeaderBytes ||
      llvm::StringRef(bytes.data(), sizeof kMagic) != llvm::StringRef(kMagic, sizeof kMagic))
    return absl::DataLossError("not a compiled program of Weft");
  uint32_t version;
  uint64_t sum;
  std::memcpy(&version, bytes.data() + sizeof kMagic, sizeof version);
  std::memcpy(&sum, bytes.data() + sizeof kMagic + sizeof version, sizeof sum);
  if (version != kArtifactVersion)
    return absl::FailedPreconditionError("a compiled program of version " +
                                         std::to_string(version) + ", not " +
                                         std::to_string(kArtifactVersion));
  llvm::ArrayRef<char> body = bytes.drop_front(kHeaderBytes);
  if (runtime::checksum(asBytes(body)) != sum)
    return absl::DataLossError("a compiled program whose checksum is wrong");

  runtime::ByteReader reader(asBytes(body));
  Artifact artifact;
  artifact.program = reader.string();
  artifact.sizes = reader.string();
  size_t objects = reader.count(sizeof(uint64_t));
  for (size_t i = 0; i < objects && reader.ok(); ++i)
    artifact.objects.push_back(std::make_shared<const std::string>(reader.string()));
  if (!reader.ok())
    return absl::DataLossError("a compiled program that ends too early");
  return artifact;
}

} // namespace weft::compiler
