#include "backends/cuda/device/cuda_code.h"

#include "absl/strings/str_cat.h"
#include "runtime/core/byte_stream.h"

namespace weft::backends::cuda {
namespace {

constexpr uint64_t kMagic = 0x31444f4355435457; // "WTCUCOD1"
// What the hardware takes: a grid in x, and threads of a block.
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
constexpr int64_t kMostThreads = 1024;

} // namespace

std::string write_modules(std::span<const KernelModule> modules) {
  runtime::ByteWriter body;
  body.scalar<uint64_t>(modules.size());
  for (const KernelModule &module : modules) {
    body.string(module.ptx);
    body.scalar<uint64_t>(module.entries.size());
    for (const KernelEntry &entry : module.entries) {
      body.string(entry.symbol);
      body.scalar(entry.blocks);
      body.scalar(entry.threads);
      body.scalar(entry.per_block);
    }
  }
  runtime::ByteWriter all;
  all.scalar(kMagic);
  all.scalar(kCudaCodeVersion);
  all.scalar(runtime::checksum({reinterpret_cast<const std::byte *>(body.data()), body.size()}));
  all.raw(body.data(), body.size());
  return all.take();
}

absl::StatusOr<std::vector<KernelModule>> read_modules(std::span<const std::byte> bytes) {
  runtime::ByteReader reader(bytes);
  uint64_t magic = reader.scalar<uint64_t>();
  uint32_t version = reader.scalar<uint32_t>();
  uint64_t sum = reader.scalar<uint64_t>();
  if (!reader.ok() || magic != kMagic)
    return absl::DataLossError("not the GPU code of a compiled program");
  if (version != kCudaCodeVersion)
    return absl::FailedPreconditionError(
        absl::StrCat("GPU code of version ", version, ", not ", kCudaCodeVersion));
  if (runtime::checksum(bytes.subspan(reader.position())) != sum)
    return absl::DataLossError("GPU code whose checksum is wrong");
  std::vector<KernelModule> modules;
  size_t count = reader.count(2 * sizeof(uint64_t));
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    KernelModule &module = modules.emplace_back();
    module.ptx = reader.string();
    size_t entries = reader.count(4 * sizeof(uint64_t));
    for (size_t k = 0; k < entries && reader.ok(); ++k) {
      KernelEntry &entry = module.entries.emplace_back();
      entry.symbol = reader.string();
      entry.blocks = reader.scalar<int64_t>();
      entry.threads = reader.scalar<int64_t>();
      entry.per_block = reader.scalar<int64_t>();
      if (entry.blocks < 0 || entry.blocks > kMostBlocks || entry.threads < 1 ||
          entry.threads > kMostThreads || entry.per_block < kWholeGrid)
        reader.fail();
    }
  }
  if (!reader.ok() || reader.remaining() != 0)
    return absl::DataLossError("GPU code that ends too early or holds impossible grids");
  return modules;
}

} // namespace weft::backends::cuda
