// .npy files.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/io/npy.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"

namespace weft::fuzz {

std::vector<std::string> seeds() {
  std::string path =
      std::filesystem::temp_directory_path() / ("weft-npy-seed-" + std::to_string(getpid()));
  std::vector<std::string> all;
  std::vector<std::byte> data(24 * 8, std::byte{1});
  for (const DTypeInfo &dtype : kDTypes)
    for (const std::vector<int64_t> &dims : {std::vector<int64_t>{}, {24}, {2, 3, 4}, {0, 5}}) {
      runtime::ArrayView view{
          "", dtype.dtype, dims,
          std::span<const std::byte>(data).first(runtime::array_bytes(dtype.dtype, dims))};
      if (!runtime::write_npy(path, view).ok())
        continue; // bfloat16
      std::ifstream stream(path, std::ios::binary);
      all.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    }
  std::filesystem::remove(path);
  std::string header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }  \n";
  all.push_back(std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' +
                header + std::string(12, '\1'));
  return all;
}

bool parse(const uint8_t *data, size_t size) {
  const auto *bytes = reinterpret_cast<const std::byte *>(data);
  auto file = runtime::parse_npy({bytes, size});
  // Whatever is accepted can be read to its end.
  if (file.ok()) {
    volatile int sum = 0;
    for (std::byte byte : file->array.bytes)
      sum = sum + static_cast<int>(byte);
    if (static_cast<int64_t>(file->array.bytes.size()) !=
        runtime::array_bytes(file->array.dtype, file->array.dims))
      std::abort();
  }
  return file.ok();
}

// The bytes, once more in row-major order, and messages.
int64_t allowed_bytes(size_t size) {
  return 3 * static_cast<int64_t>(size) + 8192;
}

} // namespace weft::fuzz
