#include "backends/cuda/device/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "backends/cuda/device/find_function.h"

namespace weft::backends::cuda {

// Of cuda.h: CUresult.
constexpr int kOutOfMemory = 2;
// After these a context refuses all further calls: an address or an instruction of a kernel was
// bad, or it took too long.
constexpr int kFatal[] = {700, 702, 710, 714, 715, 716, 717, 718, 719};

absl::Status Driver::check(int error, std::string_view what) const {
  if (error == 0)
    return absl::OkStatus();
  const char *text = nullptr;
  if (get_error_string == nullptr || get_error_string(error, &text) != 0 || text == nullptr)
    text = "unknown error";
  std::string message = absl::StrCat("CUDA: ", std::string(what), ": ", text, " (", error, ")");
  if (std::find(std::begin(kFatal), std::end(kFatal), error) != std::end(kFatal))
    absl::StrAppend(&message,
                    "; the GPU takes no more work of this process, which must be started again");
  return error == kOutOfMemory ? absl::ResourceExhaustedError(message)
                               : absl::InternalError(message);
}

absl::StatusOr<Driver> open_driver(const std::string &library) {
  // Never closed: the driver keeps threads of its own.
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return absl::NotFoundError(absl::StrCat(
        "NVIDIA's driver was not found (", library, ": ", dlerror(),
        "). Programs for the backend \"cuda\" run where it is installed; compiling ahead of time "
        "(weft-compile) works here, and the backend \"cpu\" runs everywhere"));
  Driver driver;
  std::string missing;
#define WEFT_FIND(member, symbol, arguments) find_function(handle, symbol, driver.member, missing);
  WEFT_CUDA_DRIVER_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  if (!missing.empty())
    return absl::NotFoundError(
        absl::StrCat(library, " lacks ", missing, "; install a driver for CUDA 12.0 or later"));
  return driver;
}

} // namespace weft::backends::cuda
