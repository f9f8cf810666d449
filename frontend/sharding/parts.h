// What a rank has of tensors that are cut over a mesh, for those who read and write parts of them
// (files, checkpoints). No MLIR.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/tensor.h"

namespace weft::recorder {

struct MeshState;

// What a rank has of a tensor.
struct Piece {
  Shape starts, sizes; // along the dims of the whole
  // Which one it is of those that have the same elements, on other ranks.
  int64_t copy = 0, copies = 1;
};

// The mesh that the tensors are cut over; null where all are whole. Error kValue, in the name of
// `op`, where there are two.
std::shared_ptr<const MeshState> mesh_of(const std::vector<std::pair<std::string, Tensor>> &tensors,
                                         const char *op, Location location);
// This rank's number among those of the mesh.
int64_t rank_of(const MeshState &mesh);
// Of a tensor that is cut over the mesh, or whole on all its ranks.
Piece piece_of(const Tensor &x, const MeshState &mesh);
// The piece as a tensor, without history.
Tensor own_part(const Tensor &x, Location location);
// The value of `source`, for `target` to take over (copy_), of its shape and dtype: in memory of
// its own, and no more of it than this rank has of the target.
Tensor value_for(const Tensor &target, const Tensor &source, Location location);
// What each rank of the mesh says, by rank; of a text of more than 1,000 bytes its beginning. All
// ranks make the call, which is the same text on all of them; `op` is for errors. Errors: kRun, a
// rank is gone, late, or calls something else; kState, inside a function that is recorded.
std::vector<std::string> say(const MeshState &mesh, const char *op, const std::string &call,
                             const std::string &text, Location location);

} // namespace weft::recorder
