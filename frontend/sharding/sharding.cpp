#include "frontend/sharding/sharding.h"

namespace weft::recorder {

std::shared_ptr<const Sharding> sharding_of(const std::shared_ptr<const MeshState> &mesh,
                                            const compiler::Axes &axes) {
  if (llvm::all_of(axes, [](int32_t axis) { return axis == compiler::kWhole; }))
    return nullptr;
  std::erase_if(mesh->shardings, [](const auto &known) { return known.expired(); });
  for (const auto &known : mesh->shardings)
    if (std::shared_ptr<const Sharding> sharding = known.lock(); sharding->axes == axes)
      return sharding;
  auto sharding = std::make_shared<const Sharding>(Sharding{mesh, axes});
  mesh->shardings.push_back(sharding);
  return sharding;
}

const TypeInfo *cut_type(const TypeInfo &type, std::shared_ptr<const Sharding> sharding) {
  if (!sharding)
    return type_info(type.dtype, type.dims, type.device);
  Recorder &r = recorder();
  if (const TypeInfo *known = r.types.find({type.dtype, type.dims, type.device, sharding.get()}))
    return known;
  Shape part = compiler::partSizes(type.dims, sharding->axes, sharding->mesh->axes);
  auto made = std::make_unique<TypeInfo>();
  made->dtype = type.dtype;
  made->device = type.device;
  made->dims = type.dims;
  made->elements = type.elements;
  made->part = type_info(type.dtype, part, type.device);
  made->bytes = made->part->bytes;
  made->sharding = std::move(sharding);
  TypeInfo *added = r.add(r.types, std::move(made));
  added->id = added->part->id; // programs see the part
  return added;
}

std::string describe(const Sharding &sharding) {
  std::string text;
  for (int32_t axis : sharding.axes)
    text += (text.empty() ? "" : ", ") +
            (axis == compiler::kWhole ? "-" : sharding.mesh->axes[axis].name);
  return "cut over (" + text + ")";
}

} // namespace weft::recorder
