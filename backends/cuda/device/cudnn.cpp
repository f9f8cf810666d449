#include "backends/cuda/device/cudnn.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "backends/cuda/device/find_function.h"

namespace weft::backends::cuda {

// Of cudnn_graph_v9.h: cudnnStatus_t. The thousands are an error's category.
constexpr int kVersionMismatch = 1002, kPartNotLoaded = 1008, kPartUnavailable = 3009,
              kNotSupported = 3, kNoHostMemory = 4003, kNoDeviceMemory = 4004;

absl::Status Cudnn::check(int status, std::string_view what) const {
  if (status == 0)
    return absl::OkStatus();
  const char *name = get_error_string(status);
  char detail[1024] = {};
  get_last_error(detail, sizeof(detail));
  std::string message = absl::StrCat("cuDNN: ", std::string(what), ": ",
                                     name != nullptr ? name : "unknown error", " (", status, ")");
  if (detail[0] != '\0')
    absl::StrAppend(&message, ": ", detail);
  if (status == kVersionMismatch || status == kPartNotLoaded || status == kPartUnavailable)
    return absl::NotFoundError(
        absl::StrCat(message, "; a library that belongs to libcudnn.so.9 is missing or of another "
                              "version: install cuDNN whole, and set LD_LIBRARY_PATH to it"));
  if (status / 1000 == kNotSupported)
    return absl::UnimplementedError(message);
  return status == kNoHostMemory || status == kNoDeviceMemory
             ? absl::ResourceExhaustedError(message)
             : absl::InternalError(message);
}

std::string Cudnn::version() const {
  size_t number = get_version();
  return absl::StrCat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

absl::StatusOr<Cudnn> open_cudnn(const std::string &library) {
  std::string name = library.empty() ? "libcudnn.so.9" : library;
  // Never closed: it keeps state of the driver.
  void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return absl::NotFoundError(absl::StrCat("cuDNN was not found (looked for ", name,
                                            "); install cuDNN 9, set LD_LIBRARY_PATH, or "
                                            "compile without library calls (--no-claim)"));
  Cudnn result;
  std::string missing;
#define WEFT_FIND(type, member, symbol, arguments)                                                 \
  find_function(handle, symbol, result.member, missing);
  WEFT_CUDNN_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  if (!missing.empty())
    return absl::NotFoundError(absl::StrCat("cuDNN lacks ", missing, "; install cuDNN 9"));
  return result;
}

} // namespace weft::backends::cuda
