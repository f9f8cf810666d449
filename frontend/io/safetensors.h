// Named tensors in safetensors files (https://huggingface.co/docs/safetensors), which PyTorch, JAX
// and others read and write as well.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/tensor.h"

namespace weft::io {

// What a safetensors file holds.
struct SafeTensors {
  std::vector<std::pair<std::string, Tensor>> tensors; // in the file's order
  std::map<std::string, std::string> metadata;
};

// Computes the tensors where they are not, and replaces the file in one step. Throws Error when the
// file cannot be written, two tensors have one name, or a text is not UTF-8.
void save_safetensors(const std::string &path,
                      const std::vector<std::pair<std::string, Tensor>> &tensors,
                      const std::map<std::string, std::string> &metadata = {},
                      Location location = Location::current());

// Throws Error when the file is missing, unreadable, cut off, damaged, no safetensors file, or has
// an element type that Weft lacks. The file is mapped, not read: a tensor's bytes are read when
// they are used, and copied when they are written (or where they are not aligned to their
// elements), so that the file stays as it is. While such tensors live it may be deleted or
// replaced, as save_safetensors does, but must not be written or cut in place.
SafeTensors load_safetensors(const std::string &path, Location location = Location::current());

} // namespace weft::io
