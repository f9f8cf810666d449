// safetensors files.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/io/safetensors.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"

namespace weft::fuzz {

std::vector<std::string> seeds() {
  std::string path = std::filesystem::temp_directory_path() /
                     ("weft-safetensors-seed-" + std::to_string(getpid()));
  std::vector<std::string> all;
  std::vector<std::byte> data(24 * 8, std::byte{1});
  auto add = [&](const std::vector<runtime::ArrayView> &tensors,
                 const std::map<std::string, std::string> &metadata) {
    if (!runtime::write_safetensors(path, tensors, metadata).ok())
      std::abort();
    std::ifstream stream(path, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  };
  std::vector<runtime::ArrayView> every;
  for (const DTypeInfo &dtype : kDTypes)
    every.push_back({dtype.name,
                     dtype.dtype,
                     {2, 3},
                     std::span<const std::byte>(data).first(static_cast<size_t>(6 * dtype.bytes))});
  add(every, {});
  add({}, {});
  add({every[0]}, {{"step", "12"}, {"name \"quoted\" \\ \xc3\xa4", "\n\t\x01"}});
  add({{"scalar", DType::kFloat32, {}, std::span<const std::byte>(data).first(4)},
       {"empty", DType::kInt64, {0, 4}, {}}},
      {});
  std::filesystem::remove(path);
  return all;
}

bool parse(const uint8_t *data, size_t size) {
  const auto *bytes = reinterpret_cast<const std::byte *>(data);
  auto file = runtime::parse_safetensors({bytes, size});
  if (!file.ok())
    return false;
  for (const runtime::ArrayView &tensor : file->tensors) {
    volatile int sum = 0;
    for (std::byte byte : tensor.bytes)
      sum = sum + static_cast<int>(byte);
    if (static_cast<int64_t>(tensor.bytes.size()) !=
        runtime::array_bytes(tensor.dtype, tensor.dims))
      std::abort();
  }
  return true;
}

// A tensor takes some 100 bytes of header and some 200 as a row.
int64_t allowed_bytes(size_t size) {
  return 24 * static_cast<int64_t>(size) + 8192;
}

} // namespace weft::fuzz
