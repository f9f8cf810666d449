// safetensors files (https://huggingface.co/docs/safetensors): 8 bytes of header length, a JSON
// header, the tensors' bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/io/array.h"
#include "runtime/io/files.h"

namespace weft::runtime {

// A tensor of an element type that Weft lacks: unsigned 16 to 64 bits, 8-bit floats. Its bytes are
// not looked at. An unsigned type is not read as a wider signed one: what is written back would be
// another file, and what is mapped would be a copy.
struct UnreadTensor {
  std::string name, dtype; // as the file says it: "F8_E4M3"
  std::vector<int64_t> dims;
};
// "F8_E4M3 [2, 3] in the file, ..." with what to do, for messages that have named the tensor.
std::string unread_text(const UnreadTensor &tensor);

struct SafetensorsFile {
  std::shared_ptr<const void> storage; // of the tensors, where a file was read
  std::vector<ArrayView> tensors;      // in the order of their bytes
  std::vector<UnreadTensor> unread;    // in the same order
  std::map<std::string, std::string> metadata;
};

// DataLoss for bytes that are cut off, contradict themselves (ranges that overlap, leave gaps, or
// do not fit a shape) or are no safetensors file. Never allocates more than a small multiple of the
// bytes given, in which the tensors lie.
absl::StatusOr<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes);
// As parse_safetensors, and the errors of map_file; the message names the file. Of a file that is
// mapped the header alone is read.
absl::StatusOr<SafetensorsFile> read_safetensors(const std::string &path);

// What a file of tensors begins with, and where their bytes stand.
struct SafetensorsLayout {
  std::string start;       // the header and its length
  std::vector<int64_t> at; // of each tensor, from the beginning of the file
  int64_t bytes = 0;       // of the whole file
};
// Of tensors whose bytes do not matter here; `path` is for errors, which are write_safetensors's.
absl::StatusOr<SafetensorsLayout>
layout_safetensors(const std::string &path, std::span<const ArrayView> tensors,
                   const std::map<std::string, std::string> &metadata = {});
// Tensors stand in the order given, the first at a multiple of 64 bytes. InvalidArgument for two
// tensors of one name, a name that is not UTF-8, or bytes that do not fit a shape. Atomic.
absl::Status write_safetensors(const std::string &path, std::span<const ArrayView> tensors,
                               const std::map<std::string, std::string> &metadata = {});

} // namespace weft::runtime
