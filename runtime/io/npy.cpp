#include "runtime/io/npy.h"
#include "runtime/core/status.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace weft::runtime {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64; // of the data, as NumPy writes it

struct Descr {
  DType dtype;
  std::string_view text;
};
// '|' stands for types without a byte order; NumPy accepts '=' (native) too.
constexpr Descr kDescrs[] = {
    {DType::kFloat32, "<f4"}, {DType::kFloat64, "<f8"}, {DType::kFloat16, "<f2"},
    {DType::kInt64, "<i8"},   {DType::kInt32, "<i4"},   {DType::kInt16, "<i2"},
    {DType::kInt8, "|i1"},    {DType::kUInt8, "|u1"},   {DType::kBool, "|b1"},
};

std::optional<DType> dtype_of(std::string_view descr) {
  if (descr.size() != 3)
    return {};
  for (const Descr &known : kDescrs) {
    bool has_order = known.text[0] == '<';
    bool order_fits =
        descr[0] == '=' || descr[0] == known.text[0] || (!has_order && descr[0] == '<');
    if (order_fits && descr.substr(1) == known.text.substr(1))
      return known.dtype;
  }
  return {};
}

// "<f4, <f8, ..."
std::string known_descrs() {
  std::string text;
  for (const Descr &known : kDescrs)
    text += (text.empty() ? "" : ", ") + std::string(known.text);
  return text;
}

// The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderReader {
public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  std::string_view descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;

  bool read() {
    if (!take('{'))
      return false;
    while (!take('}')) {
      std::string_view key;
      if (!string(key) || !take(':'))
        return false;
      bool ok = key == "descr"           ? string(descr)
                : key == "fortran_order" ? boolean()
                : key == "shape"         ? tuple()
                                         : false;
      if (!ok)
        return false;
      if (!take(',')) {
        if (!take('}'))
          return false;
        break;
      }
    }
    skip();
    return position_ == text_.size() && !descr.empty() && fortran_order && shape;
  }

private:
  void skip() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n'))
      ++position_;
  }
  bool take(char c) {
    skip();
    if (position_ >= text_.size() || text_[position_] != c)
      return false;
    ++position_;
    return true;
  }
  bool string(std::string_view &value) {
    skip();
    if (position_ >= text_.size() || (text_[position_] != '\'' && text_[position_] != '"'))
      return false;
    size_t end = text_.find(text_[position_], position_ + 1);
    if (end == std::string_view::npos)
      return false;
    value = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return true;
  }
  bool boolean() {
    skip();
    for (bool value : {false, true}) {
      std::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) != word)
        continue;
      position_ += word.size();
      fortran_order = value;
      return true;
    }
    return false;
  }
  bool tuple() {
    if (!take('('))
      return false;
    std::vector<int64_t> dims;
    while (!take(')')) {
      skip();
      int64_t dim = 0;
      auto [end, error] =
          std::from_chars(text_.data() + position_, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0)
        return false;
      position_ = static_cast<size_t>(end - text_.data());
      dims.push_back(dim);
      if (!take(',')) {
        if (!take(')'))
          return false;
        break;
      }
    }
    shape = std::move(dims);
    return true;
  }

  std::string_view text_;
  size_t position_ = 0;
};

// Column-major elements in row-major order.
std::vector<std::byte> from_fortran(std::span<const std::byte> bytes, std::span<const int64_t> dims,
                                    int64_t size) {
  std::vector<std::byte> result(bytes.size());
  std::vector<int64_t> index(dims.size(), 0), strides(dims.size());
  int64_t stride = size;
  for (size_t d = 0; d < dims.size(); ++d)
    strides[d] = stride, stride *= dims[d];
  int64_t from = 0;
  for (size_t to = 0; to < result.size(); to += static_cast<size_t>(size)) {
    std::memcpy(result.data() + to, bytes.data() + from, static_cast<size_t>(size));
    for (size_t d = dims.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < dims[d])
        break;
      from -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
  return result;
}

} // namespace

absl::StatusOr<NpyFile> parse_npy(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (text.size() < 10 || text.substr(0, kMagic.size()) != kMagic)
    return absl::DataLossError("not an .npy file");
  int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3)
    return absl::UnimplementedError("an .npy file of version " + std::to_string(version));
  size_t length_bytes = version == 1 ? 2 : 4, start = 8 + length_bytes, length = 0;
  if (text.size() < start)
    return absl::DataLossError("an .npy file that is cut off in its header");
  for (size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  if (text.size() - start < length)
    return absl::DataLossError("an .npy file that is cut off in its header");
  HeaderReader header(text.substr(start, length));
  if (!header.read())
    return absl::DataLossError("an .npy file with a damaged header");
  std::optional<DType> dtype = dtype_of(header.descr);
  if (!dtype)
    return absl::UnimplementedError("an .npy file of element type '" + std::string(header.descr) +
                                    "'; what can be read is " + known_descrs() +
                                    " (little endian): convert with NumPy's astype()");
  int64_t size = array_bytes(*dtype, *header.shape);
  size_t there = text.size() - start - length;
  if (size < 0 || static_cast<size_t>(size) != there)
    return absl::DataLossError(
        "an .npy file whose shape needs " +
        (size < 0 ? "more bytes than there can be" : std::to_string(size) + " bytes") +
        ", it has " + std::to_string(there));
  NpyFile file;
  file.array.dtype = *dtype;
  file.array.dims = *header.shape;
  std::span<const std::byte> data = bytes.subspan(start + length);
  if (*header.fortran_order && header.shape->size() > 1) {
    auto turned = std::make_shared<const std::vector<std::byte>>(
        from_fortran(data, file.array.dims, byte_size(*dtype)));
    file.array.bytes = *turned;
    file.storage = std::move(turned);
  } else {
    file.array.bytes = data;
  }
  return file;
}

absl::StatusOr<NpyFile> read_npy(const std::string &path) {
  WEFT_ASSIGN_OR_RETURN(MappedFile mapped, map_file(path));
  absl::StatusOr<NpyFile> file = parse_npy(mapped.bytes);
  if (file.ok()) {
    if (!file->storage)
      file->storage = std::move(mapped.owner);
    return file;
  }
  return absl::Status(
      file.status().code(),
      absl::string_view("cannot read '" + path + "': " + std::string(file.status().message())));
}

absl::Status write_npy(const std::string &path, const ArrayView &array) {
  std::string_view descr;
  for (const Descr &known : kDescrs)
    if (known.dtype == array.dtype)
      descr = known.text;
  if (descr.empty())
    return absl::UnimplementedError("cannot write '" + path + "': .npy files have no " +
                                    std::string(name(array.dtype)));
  if (array_bytes(array.dtype, array.dims) != static_cast<int64_t>(array.bytes.size()))
    return absl::InvalidArgumentError("cannot write '" + path +
                                      "': the shape does not fit the bytes");
  std::string header = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < array.dims.size(); ++i)
    header += (i ? " " : "") + std::to_string(array.dims[i]) + ",";
  if (array.dims.size() > 1)
    header.pop_back(); // Python's (3,) and (2, 3)
  header += "), }";
  size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  header += std::string(padding, ' ') + "\n";
  if (header.size() > 0xFFFF)
    return absl::InvalidArgumentError("cannot write '" + path + "': too many dimensions");
  std::string start = std::string(kMagic) + '\x01' + '\x00' +
                      static_cast<char>(header.size() & 0xFF) +
                      static_cast<char>(header.size() >> 8) + header;
  std::span<const std::byte> pieces[] = {std::as_bytes(std::span(start)), array.bytes};
  return write_file_atomically(path, pieces);
}

} // namespace weft::runtime
