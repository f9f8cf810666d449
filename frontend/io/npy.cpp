#include "weft/io/npy.h"

#include "frontend/io/status.h"
#include "frontend/tensor/constant.h"
#include "runtime/io/npy.h"

namespace weft::io {

void save_npy(const std::string &path, const Tensor &tensor, Location location) {
  CallerScope scope(location);
  std::span bytes(static_cast<const std::byte *>(tensor.data_bytes()),
                  static_cast<size_t>(tensor.nbytes()));
  check(runtime::write_npy(path, {"", tensor.dtype(), tensor.shape(), bytes}), location);
}

Tensor load_npy(const std::string &path, Location location) {
  CallerScope scope(location);
  absl::StatusOr<runtime::NpyFile> file = runtime::read_npy(path);
  check(file.status(), location);
  return recorder::constant_tensor(file->array.bytes.data(), file->array.dtype, file->array.dims,
                                   file->storage, location);
}

} // namespace weft::io
