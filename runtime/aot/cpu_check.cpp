#include "runtime/aot/cpu_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace weft::runtime {
namespace {

#if defined(__x86_64__)
constexpr std::string_view kArchitecture = "x86_64";

// What kernels are compiled to use, and that not every processor has. The builtin takes literals
// only.
bool supports(std::string_view feature) {
#define WEFT_FEATURE(name)                                                                         \
  if (feature == name)                                                                             \
    return __builtin_cpu_supports(name) != 0;
  WEFT_FEATURE("sse4.2")
  WEFT_FEATURE("avx")
  WEFT_FEATURE("avx2")
  WEFT_FEATURE("fma")
  WEFT_FEATURE("bmi")
  WEFT_FEATURE("bmi2")
  WEFT_FEATURE("avx512f")
  WEFT_FEATURE("avx512bw")
  WEFT_FEATURE("avx512cd")
  WEFT_FEATURE("avx512dq")
  WEFT_FEATURE("avx512vl")
  WEFT_FEATURE("avx512vnni")
  WEFT_FEATURE("avx512bf16")
  WEFT_FEATURE("avx512fp16")
  WEFT_FEATURE("avx512ifma")
  WEFT_FEATURE("avx512vbmi")
  WEFT_FEATURE("avx512vbmi2")
  WEFT_FEATURE("avx512bitalg")
  WEFT_FEATURE("avx512vpopcntdq")
  WEFT_FEATURE("avx512vp2intersect")
  WEFT_FEATURE("gfni")
  WEFT_FEATURE("vpclmulqdq")
  WEFT_FEATURE("popcnt")
  WEFT_FEATURE("x86-64-v2")
  WEFT_FEATURE("x86-64-v3")
  WEFT_FEATURE("x86-64-v4")
#undef WEFT_FEATURE
  return true;
}
#elif defined(__aarch64__)
constexpr std::string_view kArchitecture = "aarch64";
bool supports(std::string_view) {
  return true;
}
#else
#error "no kernels for this architecture"
#endif

absl::Status missing(std::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the model was compiled for a processor with ", std::string(what),
                   ", which this one lacks; compile it with another --mcpu"));
}

} // namespace

absl::Status check_cpu(std::string_view target) {
  if (target.empty())
    return absl::OkStatus();
  size_t first = target.find('|');
  std::string_view triple = target.substr(0, first);
  std::string_view rest = first == target.npos ? std::string_view() : target.substr(first + 1);
  size_t second = rest.find('|');
  std::string_view cpu = rest.substr(0, second);
  std::string_view features = second == rest.npos ? std::string_view() : rest.substr(second + 1);
  if (std::string_view architecture = triple.substr(0, triple.find('-'));
      first != target.npos && architecture != kArchitecture)
    return absl::FailedPreconditionError(
        absl::StrCat("the model was compiled for ", std::string(architecture), "; this machine is ",
                     std::string(kArchitecture)));
  if (!supports(cpu))
    return missing(cpu);
  while (!features.empty()) {
    std::string_view feature = features.substr(0, features.find(','));
    features.remove_prefix(std::min(features.size(), feature.size() + 1));
    if (feature.starts_with('+') && !supports(feature.substr(1)))
      return missing(feature.substr(1));
  }
  return absl::OkStatus();
}

} // namespace weft::runtime
