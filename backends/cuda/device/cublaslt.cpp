#include "backends/cuda/device/cublaslt.h"

#include <dlfcn.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda/device/find_function.h"

namespace weft::backends::cuda {

// Of cublas_api.h: cublasStatus_t.
constexpr std::pair<int, const char *> kStatus[] = {
    {1, "not initialized"}, {kCublasNoMemory, "no memory"}, {7, "invalid value"},
    {8, "the GPU's architecture has none"}, {11, "mapping error"}, {13, "execution failed"},
    {14, "internal error"}, {kCublasNotSupported, "not supported"}};

absl::Status CublasLt::check(int error, std::string_view what) const {
  if (error == 0)
    return absl::OkStatus();
  std::string message =
      absl::StrCat("cuBLASLt: ", std::string(what), " fails with status ", error);
  for (auto [status, name] : kStatus)
    if (status == error)
      absl::StrAppend(&message, " (", name, ")");
  return error == kCublasNoMemory       ? absl::ResourceExhaustedError(message)
         : error == kCublasNotSupported ? absl::UnimplementedError(message)
                                        : absl::InternalError(message);
}

absl::StatusOr<CublasLt> open_cublaslt(const std::string &library) {
  std::vector<std::string> names{library};
  if (library.empty())
    names = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"};
  void *handle = nullptr;
  for (const std::string &name : names)
    if (handle == nullptr)
      handle =
          dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); // never closed: it keeps state of the driver
  if (handle == nullptr)
    return absl::NotFoundError(absl::StrCat("cuBLASLt was not found (looked for ",
                                            absl::StrJoin(names, ", "),
                                            "); install CUDA's libraries, set LD_LIBRARY_PATH, or "
                                            "compile without library calls (--no-claim)"));
  CublasLt result;
  std::string missing;
#define WEFT_FIND(member, symbol, arguments) find_function(handle, symbol, result.member, missing);
  WEFT_CUBLASLT_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  if (!missing.empty())
    return absl::NotFoundError(absl::StrCat("cuBLASLt lacks ", missing));
  return result;
}

} // namespace weft::backends::cuda
