#include "weft/io/safetensors.h"

#include "frontend/io/safetensors_parts.h"
#include "frontend/io/status.h"
#include "frontend/sharding/parts.h"
#include "frontend/tensor/constant.h"
#include "runtime/io/safetensors.h"
#include "weft/eval.h"

namespace weft::io {

std::string SafeTensors::Unread::text() const {
  return runtime::unread_text({name, dtype, shape});
}

const Tensor &SafeTensors::at(const std::string &name, Location location) const {
  for (const auto &[known, tensor] : tensors)
    if (known == name)
      return tensor;
  for (const Unread &each : unread)
    if (each.name == name)
      fail_at(location, ErrorKind::kDType, "SafeTensors::at: '" + name + "' is " + each.text());
  fail_at(location, ErrorKind::kFile, "SafeTensors::at: the file has no tensor '" + name + "'");
}

void save_safetensors(const std::string &path,
                      const std::vector<std::pair<std::string, Tensor>> &tensors,
                      const std::map<std::string, std::string> &metadata, Location location) {
  CallerScope scope(location);
  std::vector<Tensor> values;
  for (const auto &[name, tensor] : tensors) {
    if (!tensor.defined())
      fail_at(location, ErrorKind::kState,
              "save_safetensors: '" + name +
                  "' is an undefined tensor, which has no value to "
                  "save; leave it out");
    values.push_back(tensor);
  }
  if (auto mesh = recorder::mesh_of(tensors, "save_safetensors", location))
    return save_parts(path, tensors, metadata, *mesh, location);
  weft::eval(values); // one program for all
  std::vector<runtime::ArrayView> views;
  for (const auto &[name, tensor] : tensors)
    views.push_back({name, tensor.dtype(), tensor.shape(),
                     std::span(static_cast<const std::byte *>(tensor.data_bytes()),
                               static_cast<size_t>(tensor.nbytes()))});
  check(runtime::write_safetensors(path, views, metadata), location);
}

SafeTensors load_safetensors(const std::string &path, Location location) {
  CallerScope scope(location);
  absl::StatusOr<runtime::SafetensorsFile> file = runtime::read_safetensors(path);
  check(file.status(), location);
  SafeTensors result;
  for (const runtime::ArrayView &view : file->tensors)
    result.tensors.emplace_back(view.name,
                                recorder::constant_tensor(view.bytes.data(), view.dtype, view.dims,
                                                          file->storage, location));
  for (runtime::UnreadTensor &each : file->unread)
    result.unread.push_back(
        {std::move(each.name), std::move(each.dtype), std::move(each.dims)});
  result.metadata = std::move(file->metadata);
  return result;
}

} // namespace weft::io
