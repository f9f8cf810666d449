#include "backends/cuda/device/driver.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "backends/cuda/device/find_function.h"

namespace weft::backends::cuda {

// Of cuda.h: CUresult.
constexpr int kOutOfMemory = 2;
// What to do about an error, where its text does not say it.
struct Advice {
  int error;
  const char *what;
};
constexpr const char *kLost = "the GPU takes no more work of this process, which must be started "
                              "again";
constexpr Advice kAdvice[] = {
    {3, "a process that was forked cannot use the GPUs of its parent: start it anew, or use none "
        "before the fork"},
    {4, "the process is ending, and the driver has ended already"},
    {209, "the GPU is older than what the program was compiled for"},
    {221, "a part of the driver that compiles kernels, libnvidia-ptxjitcompiler.so, is missing "
          "(containers need the driver's capability \"compute\")"},
    {222, "the driver is older than the kernels' PTX: install a newer one"},
    {223, "CUDA_DISABLE_PTX_JIT forbids to compile kernels: unset it"},
    // A context refuses all calls after these: an address or an instruction of a kernel was bad, it
    // took too long, or the GPU has an error.
    {214, kLost},
    {220, kLost},
    {226, kLost},
    {700, kLost},
    {702, kLost},
    {710, kLost},
    {714, kLost},
    {715, kLost},
    {716, kLost},
    {717, kLost},
    {718, kLost},
    {719, kLost},
    {721, kLost},
    {810, kLost},
    {911, kLost},
};

absl::Status Driver::check(int error, std::string_view what) const {
  if (error == 0)
    return absl::OkStatus();
  const char *text = nullptr;
  if (get_error_string == nullptr || get_error_string(error, &text) != 0 || text == nullptr)
    text = "unknown error";
  std::string message = absl::StrCat("CUDA: ", std::string(what), ": ", text, " (", error, ")");
  for (const Advice &advice : kAdvice)
    if (advice.error == error)
      absl::StrAppend(&message, "; ", advice.what);
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
