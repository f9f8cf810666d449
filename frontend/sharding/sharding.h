// How a tensor is cut over the ranks of a mesh, as a type has it.
//
// A tensor of which ranks have parts is recorded like any other: ops, shapes and histories are the
// whole tensor's. Only what is entered into the record are the steps that this rank computes
// (compiler/shard), so that programs, memory and exchanges know nothing of meshes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/shard/Shard.h"
#include "frontend/recorder/record/state.h"

namespace weft::recorder {

// The axes of a mesh as this rank sees them.
struct MeshState {
  std::vector<compiler::MeshAxis> axes;
  // What parts.h says of it.
  std::function<std::vector<std::string>(const char *op, const std::string &call,
                                         const std::string &text, Location location)>
      say;
  // The ways in which tensors are cut over it. Under the recorder's lock.
  mutable std::vector<std::weak_ptr<const Sharding>> shardings;
};

struct Sharding {
  std::shared_ptr<const MeshState> mesh;
  compiler::Axes axes; // at least one dim is cut
};

// One object for each mesh and axes; null where no dim is cut.
std::shared_ptr<const Sharding> sharding_of(const std::shared_ptr<const MeshState> &mesh,
                                            const compiler::Axes &axes);
// The type of a whole tensor of this one's dims where it is cut like this, whose dims must divide.
const TypeInfo *cut_type(const TypeInfo &type, std::shared_ptr<const Sharding> sharding);
// What the op says that makes the gradient, which has one handle, where that is a sum over ranks
// that was recorded and that nobody has read; else null.
const ir::AllReduceOp::Properties *unread_sum(const Var &gradient);
// The part of the rank, as a whole tensor without history.
Var part_of(const Var &x);
// A tensor of which this rank has this part.
Var of_part(const Var &part, std::shared_ptr<const Sharding> sharding);

} // namespace weft::recorder
