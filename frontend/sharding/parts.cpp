#include "frontend/sharding/parts.h"

#include "frontend/sharding/sharding.h"
#include "frontend/tensor/constant.h"
#include "frontend/tensor/impl.h"

namespace weft::recorder {

std::shared_ptr<const MeshState> mesh_of(const std::vector<std::pair<std::string, Tensor>> &tensors,
                                         const char *op, Location location) {
  Session session(op, location);
  std::shared_ptr<const MeshState> mesh;
  const std::string *first = nullptr;
  for (const auto &[name, tensor] : tensors) {
    const Sharding *sharding = current_type(tensor, "x")->sharding.get();
    if (!sharding)
      continue;
    if (first && sharding->mesh != mesh)
      fail(ErrorKind::kValue, "'" + *first + "' and '" + name +
                                  "' are cut over two meshes; save the tensors of each in a file "
                                  "of their own");
    mesh = sharding->mesh;
    first = &name;
  }
  return mesh;
}

int64_t rank_of(const MeshState &mesh) {
  int64_t rank = 0;
  for (const compiler::MeshAxis &axis : mesh.axes)
    rank = rank * axis.ranks + axis.rank;
  return rank;
}

Piece piece_of(const Tensor &x, const MeshState &mesh) {
  UnderLock lock;
  const TypeInfo &type = *current_type(x, "x");
  Piece piece{Shape(type.dims.size(), 0), type.part ? type.part->dims : type.dims};
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const compiler::MeshAxis &axis = mesh.axes[i];
    ptrdiff_t dim = -1;
    for (size_t d = 0; type.sharding && d < type.dims.size(); ++d)
      if (type.sharding->axes[d] == static_cast<int32_t>(i))
        dim = static_cast<ptrdiff_t>(d);
    if (dim >= 0) {
      piece.starts[dim] = axis.rank * piece.sizes[dim];
    } else {
      piece.copy = piece.copy * axis.ranks + axis.rank;
      piece.copies *= axis.ranks;
    }
  }
  return piece;
}

Tensor own_part(const Tensor &x, Location location) {
  Session session("local_part", location);
  return wrap(part_of(read(x, "x")));
}

Tensor value_for(const Tensor &target, const Tensor &source, Location location) {
  if (!is_cut(target))
    return copy_of(source, location);
  location = CallerScope::resolve(location);
  Session session("copy", location);
  const TypeInfo *to = current_type(target, "target");
  Var x = read(source, "source");
  // Cut where it lies: of a mapped file no more is read, and no more goes to another device.
  Tensor cut =
      wrap(resharded(x, cut_type(*type_info(x.dtype(), x.type().dims, x.device()), to->sharding)));
  return cut.clone(location);
}

std::vector<std::string> say(const MeshState &mesh, const char *op, const std::string &call,
                             const std::string &text, Location location) {
  return mesh.say(op, call, text, location);
}

} // namespace weft::recorder
