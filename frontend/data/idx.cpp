#include "weft/data/idx.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

namespace weft::data {
namespace {

std::optional<DType> dtype_of(unsigned char code) {
  switch (code) {
  case 0x08:
    return DType::kUInt8;
  case 0x09:
    return DType::kInt8;
  case 0x0B:
    return DType::kInt16;
  case 0x0C:
    return DType::kInt32;
  case 0x0D:
    return DType::kFloat32;
  case 0x0E:
    return DType::kFloat64;
  default:
    return std::nullopt;
  }
}

std::optional<int64_t> label_at(const HostArray &labels, size_t i) {
  switch (labels.dtype) {
  case DType::kUInt8:
    return labels.as<uint8_t>()[i];
  case DType::kInt8:
    return labels.as<int8_t>()[i];
  case DType::kInt16:
    return labels.as<int16_t>()[i];
  case DType::kInt32:
    return labels.as<int32_t>()[i];
  default:
    return std::nullopt;
  }
}

} // namespace

HostArray read_idx(const std::string &path, Location location) {
  auto fail = [&](const std::string &why) {
    throw Error(ErrorKind::kFile, "'" + path + "' " + why, location);
  };
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    fail("does not exist");
  if (!std::filesystem::is_regular_file(path, error))
    fail("is not a file");
  uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file)
    fail("cannot be read");
  std::array<unsigned char, 4> magic{};
  if (!file.read(reinterpret_cast<char *>(magic.data()), magic.size()) || magic[0] != 0 ||
      magic[1] != 0)
    fail(magic[0] == 0x1f && magic[1] == 0x8b
             ? "is compressed; unpack it with gunzip"
             : "is no IDX file: it does not start with two zeros, a type and a rank");
  std::optional<DType> dtype = dtype_of(magic[2]);
  if (!dtype)
    fail("has the IDX type " + std::to_string(magic[2]) + ", which does not exist");
  HostArray array{*dtype, {}, {}};
  int64_t bytes = byte_size(*dtype); // as tensors count them
  for (unsigned i = 0; i < magic[3]; ++i) {
    std::array<unsigned char, 4> big{};
    if (!file.read(reinterpret_cast<char *>(big.data()), big.size()))
      fail("ends within its header");
    uint32_t dim = uint32_t{big[0]} << 24 | uint32_t{big[1]} << 16 | uint32_t{big[2]} << 8 | big[3];
    array.shape.push_back(dim);
    if (__builtin_mul_overflow(bytes, int64_t{dim}, &bytes))
      fail("has a header that asks for more than there can be");
  }
  uint64_t header = 4 + 4 * uint64_t{magic[3]};
  if (size - header != static_cast<uint64_t>(bytes))
    fail("has " + std::to_string(size) + " bytes, its header asks for " + std::to_string(bytes) +
         " and the header's own " + std::to_string(header));
  array.bytes.resize(static_cast<size_t>(bytes));
  if (!file.read(reinterpret_cast<char *>(array.bytes.data()), bytes))
    fail("cannot be read to its end");
  // Elements are big-endian.
  size_t width = static_cast<size_t>(byte_size(*dtype));
  for (size_t i = 0; width > 1 && i < array.bytes.size(); i += width)
    std::reverse(array.bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 array.bytes.begin() + static_cast<std::ptrdiff_t>(i + width));
  return array;
}

IdxDataset::IdxDataset(const std::string &images, const std::string &labels, ImageOptions options,
                       Location location)
    : images_(read_idx(images, location)), options_(options) {
  auto fail = [&](const std::string &why) {
    throw Error(ErrorKind::kFile, why, location);
  };
  if (images_.dtype != DType::kUInt8 || images_.shape.size() != 3)
    fail("'" + images + "' must hold unsigned bytes [images, height, width]");
  if (images_.shape[1] < 1 || images_.shape[2] < 1)
    fail("'" + images + "' holds images of " + std::to_string(images_.shape[1]) + " x " +
         std::to_string(images_.shape[2]) + " pixels; there must be a row and a column at least");
  HostArray read = read_idx(labels, location);
  if (read.shape.size() != 1 || !is_integer(read.dtype))
    fail("'" + labels + "' must hold integers [labels]");
  if (read.shape[0] != images_.shape[0])
    fail("'" + images + "' holds " + std::to_string(images_.shape[0]) + " images, '" + labels +
         "' " + std::to_string(read.shape[0]) + " labels; there must be one for each");
  for (size_t i = 0; i < static_cast<size_t>(read.shape[0]); ++i) {
    int64_t label = *label_at(read, i);
    if (label < 0)
      fail("'" + labels + "' holds a negative label, " + std::to_string(label));
    labels_.push_back(label);
    classes_ = std::max(classes_, label + 1);
  }
  if (!(options.deviation > 0))
    throw Error(ErrorKind::kValue, "IdxDataset: deviation must be positive", location);
}

HostBatch IdxDataset::fetch(std::span<const int64_t> items) const {
  int64_t count = static_cast<int64_t>(items.size());
  size_t pixels = static_cast<size_t>(height() * width());
  HostBatch batch{HostArray::empty(DType::kFloat32, {count, 1, height(), width()}),
                  HostArray::empty(DType::kInt64, {count})};
  std::span<const uint8_t> from = images_.as<uint8_t>();
  std::span<float> to = batch.input.as<float>();
  for (size_t i = 0; i < items.size(); ++i) {
    size_t item = static_cast<size_t>(items[i]);
    for (size_t k = 0; k < pixels; ++k)
      to[i * pixels + k] = static_cast<float>((from[item * pixels + k] / 255.0 - options_.mean) /
                                              options_.deviation);
    batch.target.as<int64_t>()[i] = labels_[item];
  }
  return batch;
}

IdxDataset mnist(const std::string &folder, bool train, ImageOptions options, Location location) {
  std::string prefix = folder + (train ? "/train" : "/t10k");
  for (const char *file : {"-images-idx3-ubyte", "-labels-idx1-ubyte"}) {
    std::error_code error;
    std::string path = prefix + file;
    if (!std::filesystem::exists(path, error) && std::filesystem::exists(path + ".gz", error))
      throw Error(ErrorKind::kFile,
                  "'" + path + "' does not exist, but '" + path +
                      ".gz' does; unpack it with gunzip",
                  location);
  }
  return IdxDataset(prefix + "-images-idx3-ubyte", prefix + "-labels-idx1-ubyte", options,
                    location);
}

} // namespace weft::data
