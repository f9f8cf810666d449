// Tensors that are cut over a mesh, in one file of whole ones. Private.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/tensor.h"

namespace weft::recorder {
struct MeshState;
}

namespace weft::io {

// As save_safetensors(), by all ranks of the mesh: each writes what it has. What several ranks have
// is written by one of them, for each tensor by another one. An error of a rank is one on all of
// them, with its text, and the file is as it was.
void save_parts(const std::string &path, const std::vector<std::pair<std::string, Tensor>> &tensors,
                const std::map<std::string, std::string> &metadata, const recorder::MeshState &mesh,
                Location location);

} // namespace weft::io
