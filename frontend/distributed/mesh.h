// Tensors of which each rank has a part, and a program that need not know. Ranks stand on a mesh of
// named axes; a tensor's dims are cut along axes. What is computed of cut tensors is what would be
// computed of whole ones: shapes are the whole tensor's, and so are derivatives. Each rank computes
// its part, and exchanges stand where the ops need them. docs/meshes.md tells which.
//
//   distributed::Mesh mesh({{"data", 2}, {"model", 2}}); // of 4 ranks
//   Tensor w1 = shard(first, mesh, {"model", ""});       // [hidden / 2, in] on each rank
//   Tensor w2 = shard(second, mesh, {"", "model"});      // [out, hidden / 2]
//   Tensor x = shard(batch, mesh, {"data", ""});
//   Tensor y = linear(relu(linear(x, w1)), w2);          // one all_reduce, over "model"
//
// A tensor that is not cut is whole, and must be the same on all ranks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/distributed/group.h"
#include "weft/nn/module.h"
#include "weft/tensor.h"

namespace weft::recorder {
struct MeshState;
}

namespace weft::distributed {

// A handle; copies are the same mesh. Tensors of two meshes do not meet in one op.
class Mesh {
public:
  // Names and sizes of the axes. Ranks stand in row-major order: those that follow each other
  // differ in their place on the last axis. All ranks of the group call it, with the same
  // axes. Errors: kValue, the sizes' product is not the number of ranks, or a name is empty or
  // stands twice; kRun, ranks give other axes; the rest as Group::split() has it.
  explicit Mesh(const std::vector<std::pair<std::string, int>> &axes, const Group &of = world(),
                Location location = Location::current());

  // The ranks that differ from this one in their place on the axis alone. Error kValue: no such
  // axis.
  Group group(const std::string &axis, Location location = Location::current()) const;
  // How many places the axis has.
  int size(const std::string &axis, Location location = Location::current()) const;
  // This rank's place on it, from 0.
  int rank(const std::string &axis, Location location = Location::current()) const;

  // The library's own.
  const std::shared_ptr<const recorder::MeshState> &state() const {
    return state_;
  }

private:
  std::shared_ptr<const recorder::MeshState> state_;
  std::vector<Group> groups_; // of each axis
};

// An axis's name for each dim, or "": that dim is whole.
using AxisNames = std::vector<std::string>;

// x cut along the axes: of a whole x this rank keeps its part, of one that is cut otherwise the
// ranks exchange parts. The result has x's history, and its gradient is x's. Errors: kValue, no
// such axis, one that stands twice, or not one name for each dim; kShape, a dim that has no equal
// parts.
Tensor shard(const Tensor &x, const Mesh &mesh, const AxisNames &axes,
             Location location = Location::current());
// All of x, on all ranks that have parts of it; x itself where it is whole. With history.
Tensor whole(const Tensor &x, Location location = Location::current());
// The part that this rank has: [rows / ranks, ...] as a whole tensor. Without history.
Tensor local_part(const Tensor &x, Location location = Location::current());
// The tensor of which this rank has this part, and the others theirs. Without history.
Tensor from_parts(const Tensor &part, const Mesh &mesh, const AxisNames &axes,
                  Location location = Location::current());
// The axes of its dims; "" for all where it is whole.
AxisNames axes_of(const Tensor &x, Location location = Location::current());

// Parameters and buffers by name, as Module::state() has them, and how they are cut. A `*` stands
// for any characters: {"*.query.weight", {"model", ""}}.
using ShardingRules = std::vector<std::pair<std::string, AxisNames>>;
// Cuts the module's parameters and buffers, each by the first rule that fits its name, in place:
// gradients follow, and moments of optimizers that are made later. What parameters start from is
// made in parts. Before a model is cut it has no gradients; it is loaded before or after.
// Errors as shard() has them, by the parameter's name; kValue, a rule that fits no name; kState, a
// parameter has a gradient.
void shard(const nn::Module &module, const Mesh &mesh, const ShardingRules &rules,
           Location location = Location::current());

} // namespace weft::distributed
