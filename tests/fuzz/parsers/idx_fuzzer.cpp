// IDX files, and data sets of images and labels in them.
#include <cstdlib>
#include <functional>
#include <numeric>

#include "tests/fuzz/parsers/memory_file.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"
#include "weft/data/idx.h"

namespace weft::fuzz {
namespace {

std::string idx(char type, size_t width, const std::vector<uint8_t> &dims) {
  std::string file{0, 0, type, static_cast<char>(dims.size())};
  for (uint8_t dim : dims)
    file += {0, 0, 0, static_cast<char>(dim)};
  return file + std::string(width * std::accumulate(dims.begin(), dims.end(), size_t{1},
                                                    std::multiplies<size_t>()),
                            '\1');
}

} // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (auto [type, width] :
       {std::pair<char, size_t>{0x08, 1}, {0x09, 1}, {0x0B, 2}, {0x0C, 4}, {0x0D, 4}, {0x0E, 8}})
    for (const std::vector<uint8_t> &dims : {std::vector<uint8_t>{}, {6}, {2, 3, 4}, {0, 5}})
      all.push_back(idx(type, width, dims));
  return all;
}

bool parse(const uint8_t *data, size_t size) {
  MemoryFile file(data, size);
  bool accepted = false;
  try {
    data::HostArray array = data::read_idx(file.path());
    // Whatever is accepted can be read to its end.
    int64_t elements = std::accumulate(array.shape.begin(), array.shape.end(), int64_t{1},
                                       std::multiplies<int64_t>());
    volatile int sum = 0;
    for (auto byte : array.bytes)
      sum = sum + static_cast<int>(byte);
    if (static_cast<int64_t>(array.bytes.size()) != elements * byte_size(array.dtype))
      std::abort();
    accepted = true;
    // As both halves of a data set, which mostly do not fit each other.
    data::IdxDataset set(file.path(), file.path());
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::kFile)
      std::abort();
  }
  return accepted;
}

// The bytes three times (the array, and the data set's two), the streams' buffers, and messages.
int64_t allowed_bytes(size_t size) {
  return 3 * static_cast<int64_t>(size) + 32768;
}

} // namespace weft::fuzz
