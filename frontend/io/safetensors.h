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
  // A tensor of a dtype that Weft has not: "U16", "U32", "U64", "F8_E4M3", ... One that is needed
  // is converted where the file is written (tensor.float() in PyTorch).
  struct Unread {
    std::string name, dtype; // as the file says it
    Shape shape;

    // "F8_E4M3 [2, 3] in the file, ...": what messages say of it.
    std::string text() const;
  };

  std::vector<std::pair<std::string, Tensor>> tensors; // in the file's order
  std::map<std::string, std::string> metadata;
  std::vector<Unread> unread; // what is not in `tensors`, in the file's order

  // The tensor of this name. Throws Error where the file has none of it, or has it with a dtype
  // that Weft has not.
  const Tensor &at(const std::string &name, Location location = Location::current()) const;
};

// Computes the tensors where they are not, and replaces the file in one step. Throws Error when the
// file cannot be written, two tensors have one name, or a text is not UTF-8. Where one of them is
// cut over a mesh of ranks, all its ranks call it with the same names, dtypes, shapes, metadata and
// path; the file is that of whole tensors, and each rank writes what it has (docs/meshes.md). What
// fails on one rank while it computes or writes throws on all; kValue, tensors are cut over two
// meshes.
void save_safetensors(const std::string &path,
                      const std::vector<std::pair<std::string, Tensor>> &tensors,
                      const std::map<std::string, std::string> &metadata = {},
                      Location location = Location::current());

// Throws Error when the file is missing, unreadable, cut off, damaged or no safetensors file. The
// file is mapped, not read: a tensor's bytes are read when they are used, and copied when they are
// written (or where they are not aligned to their elements), so that the file stays as it is. While
// such tensors live it may be deleted or replaced, as save_safetensors does, but must not be
// written or cut in place. Module::load_state() takes the result itself:
//   model.load_state(io::load_safetensors("model.safetensors"));
SafeTensors load_safetensors(const std::string &path, Location location = Location::current());

} // namespace weft::io
