#include "runtime/io/safetensors.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "runtime/core/status.h"
#include "runtime/io/json_reader.h"

namespace weft::runtime {
namespace {

// The format's own limit, so that a damaged length asks for no more.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// Of the first tensor in the files that we write: kernels read a mapped file as fast as other
// memory.
constexpr size_t kDataAlignment = 64;

std::optional<DType> dtype_of(std::string_view tag) {
  for (const DTypeInfo &known : kDTypes)
    if (tag == known.safetensors)
      return known.dtype;
  return {};
}

struct Entry {
  ArrayView view;
  std::string tag;
  int64_t begin = 0, end = 0;
  bool is_read = false;
};

// {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, the opening brace taken.
bool read_entry(JsonReader &json, Entry &entry) {
  bool has_dtype = false, has_shape = false, has_offsets = false;
  do {
    std::string key;
    if (!json.string(key) || !json.take(':'))
      return false;
    if (key == "dtype" && !has_dtype) {
      if (!json.string(entry.tag))
        return false;
      has_dtype = true;
    } else if (key == "shape" && !has_shape) {
      if (!json.integers(entry.view.dims))
        return false;
      has_shape = true;
    } else if (key == "data_offsets" && !has_offsets) {
      std::vector<int64_t> offsets;
      if (!json.integers(offsets) || offsets.size() != 2)
        return false;
      entry.begin = offsets[0], entry.end = offsets[1];
      has_offsets = true;
    } else {
      return false;
    }
  } while (json.take(','));
  return json.take('}') && has_dtype && has_shape && has_offsets;
}

bool read_metadata(JsonReader &json, std::map<std::string, std::string> &metadata) {
  if (json.take('}'))
    return true;
  do {
    std::string key, value;
    if (!json.string(key) || !json.take(':') || !json.string(value))
      return false;
    metadata[key] = value;
  } while (json.take(','));
  return json.take('}');
}

bool read_header(JsonReader json, std::vector<Entry> &entries,
                 std::map<std::string, std::string> &metadata) {
  if (!json.take('{'))
    return false;
  if (json.take('}'))
    return json.at_end();
  do {
    std::string name;
    if (!json.string(name) || !json.take(':') || !json.take('{'))
      return false;
    if (name == "__metadata__") {
      if (!read_metadata(json, metadata))
        return false;
      continue;
    }
    Entry entry;
    entry.view.name = std::move(name);
    if (!read_entry(json, entry))
      return false;
    entries.push_back(std::move(entry));
  } while (json.take(','));
  return json.take('}') && json.at_end();
}

} // namespace

std::string unread_text(const UnreadTensor &tensor) {
  std::string dims;
  for (int64_t dim : tensor.dims)
    dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
  return tensor.dtype + " [" + dims +
         "] in the file, an element type that Weft does not have; convert it where it is saved";
}

absl::StatusOr<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 8)
    return absl::DataLossError("not a safetensors file: it has " + std::to_string(bytes.size()) +
                               " bytes");
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i)
    length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > kMaxHeaderBytes || length > bytes.size() - 8)
    return absl::DataLossError("not a safetensors file, or one that is cut off in its header");
  SafetensorsFile file;
  std::vector<Entry> entries;
  std::string_view header(reinterpret_cast<const char *>(bytes.data()) + 8, length);
  if (!read_header(JsonReader(header), entries, file.metadata))
    return absl::DataLossError("not a safetensors file, or one with a damaged header");
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::span<const std::byte> data = bytes.subspan(8 + length);
  std::set<std::string_view> names;
  int64_t position = 0;
  for (Entry &entry : entries) {
    auto damaged = [&](const std::string &why) {
      return absl::DataLossError("a damaged safetensors file: tensor '" + entry.view.name + "' " +
                                 why);
    };
    if (!names.insert(entry.view.name).second)
      return damaged("stands there twice");
    if (entry.begin != position || entry.end < entry.begin)
      return damaged("does not begin where the one before it ends");
    std::optional<DType> dtype = dtype_of(entry.tag);
    // How large an element of another type is nobody knows here; it may be less than a byte.
    int64_t bytes = array_bytes(dtype.value_or(DType::kUInt8), entry.view.dims);
    if (dtype ? bytes != entry.end - entry.begin : bytes < 0)
      return damaged("has a shape that does not fit its bytes");
    if (static_cast<uint64_t>(entry.end) > data.size())
      return damaged("is cut off");
    entry.view.bytes = data.subspan(static_cast<size_t>(entry.begin),
                                    static_cast<size_t>(entry.end - entry.begin));
    position = entry.end;
    entry.is_read = dtype.has_value();
    entry.view.dtype = dtype.value_or(DType::kUInt8);
  }
  if (static_cast<uint64_t>(position) != data.size())
    return absl::DataLossError("a damaged safetensors file: " +
                               std::to_string(data.size() - static_cast<size_t>(position)) +
                               " bytes belong to no tensor");
  for (Entry &entry : entries)
    if (entry.is_read)
      file.tensors.push_back(std::move(entry.view));
    else
      file.unread.push_back(
          {std::move(entry.view.name), std::move(entry.tag), std::move(entry.view.dims)});
  return file;
}

absl::StatusOr<SafetensorsFile> read_safetensors(const std::string &path) {
  WEFT_ASSIGN_OR_RETURN(MappedFile mapped, map_file(path));
  absl::StatusOr<SafetensorsFile> file = parse_safetensors(mapped.bytes);
  if (file.ok()) {
    file->storage = std::move(mapped.owner);
    return file;
  }
  return absl::Status(
      file.status().code(),
      absl::string_view("cannot read '" + path + "': " + std::string(file.status().message())));
}

absl::StatusOr<SafetensorsLayout>
layout_safetensors(const std::string &path, std::span<const ArrayView> tensors,
                   const std::map<std::string, std::string> &metadata) {
  auto refuse = [&](const std::string &why) {
    return absl::InvalidArgumentError("cannot write '" + path + "': " + why);
  };
  std::string header = "{", separator;
  std::set<std::string_view> names;
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto &[key, value] : metadata) {
      if (!is_utf8(key) || !is_utf8(value))
        return refuse("the metadata '" + key + "' is not UTF-8");
      header += separator + json_quoted(key) + ":" + json_quoted(value);
      separator = ",";
    }
    header += "}";
    separator = ",";
  }
  SafetensorsLayout layout;
  int64_t position = 0;
  for (const ArrayView &tensor : tensors) {
    if (!is_utf8(tensor.name) || tensor.name == "__metadata__")
      return refuse("a tensor cannot be called '" + tensor.name + "'");
    if (!names.insert(tensor.name).second)
      return refuse("two tensors are called '" + tensor.name + "'");
    int64_t size = array_bytes(tensor.dtype, tensor.dims);
    if (size < 0)
      return refuse("the shape of '" + tensor.name + "' does not fit its bytes");
    header += separator + json_quoted(tensor.name) + ":{\"dtype\":\"" +
              info(tensor.dtype).safetensors + "\",\"shape\":[";
    for (size_t i = 0; i < tensor.dims.size(); ++i)
      header += (i ? "," : "") + std::to_string(tensor.dims[i]);
    header += "],\"data_offsets\":[" + std::to_string(position) + "," +
              std::to_string(position + size) + "]}";
    separator = ",";
    layout.at.push_back(position);
    position += size;
  }
  header += "}";
  header.append((kDataAlignment - (8 + header.size()) % kDataAlignment) % kDataAlignment, ' ');
  for (int i = 0; i < 8; ++i)
    layout.start += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  layout.start += header;
  for (int64_t &at : layout.at)
    at += static_cast<int64_t>(layout.start.size());
  layout.bytes = static_cast<int64_t>(layout.start.size()) + position;
  return layout;
}

absl::Status write_safetensors(const std::string &path, std::span<const ArrayView> tensors,
                               const std::map<std::string, std::string> &metadata) {
  WEFT_ASSIGN_OR_RETURN(SafetensorsLayout layout, layout_safetensors(path, tensors, metadata));
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(layout.start))};
  for (const ArrayView &tensor : tensors) {
    if (array_bytes(tensor.dtype, tensor.dims) != static_cast<int64_t>(tensor.bytes.size()))
      return absl::InvalidArgumentError("cannot write '" + path + "': the shape of '" +
                                        tensor.name + "' does not fit its bytes");
    pieces.push_back(tensor.bytes);
  }
  return write_file_atomically(path, pieces);
}

} // namespace weft::runtime
