// The scope of mixed precision, and the table's rows by name.
#include "frontend/tensor/autocast.h"

#include <string>
#include <unordered_map>

#include "frontend/recorder/record/recorder.h"

namespace weft {

using namespace recorder;

constinit thread_local AutocastState recorder::thread_autocast;

Autocast::Autocast(DType dtype, bool enabled, Location location)
    : dtype_before_(thread_autocast.dtype), enabled_before_(thread_autocast.enabled) {
  if (dtype != DType::kBFloat16 && dtype != DType::kFloat16)
    fail_at(location, ErrorKind::kDType,
            std::string("Autocast: dtype is ") + name(dtype) +
                "; it must be bfloat16 or float16, to which products are cast");
  thread_autocast = {dtype, enabled};
}
Autocast::~Autocast() {
  thread_autocast = {dtype_before_, enabled_before_};
}

std::optional<DType> autocast_dtype() {
  return thread_autocast.enabled ? std::optional(thread_autocast.dtype) : std::nullopt;
}

AutocastRule autocast_rule(std::string_view function) {
  static const auto *rules = new std::unordered_map<std::string_view, AutocastRule>{
#define WEFT_LOWER(function) {#function, AutocastRule::kLower},
#define WEFT_FLOAT32(function) {#function, AutocastRule::kFloat32},
#define WEFT_AS_GIVEN(function) {#function, AutocastRule::kAsGiven},
#include "frontend/ops/autocast.inc"
#undef WEFT_LOWER
#undef WEFT_FLOAT32
#undef WEFT_AS_GIVEN
  };
  // A member in place casts as its function does.
  if (function.ends_with('_'))
    function.remove_suffix(1);
  auto found = rules->find(function);
  return found == rules->end() ? AutocastRule::kAsGiven : found->second;
}

namespace recorder {

DType call_dtype_under_scope(DType dtype) {
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16 && dtype != DType::kFloat16)
    return dtype;
  switch (autocast_rule(Session::op())) {
  case AutocastRule::kLower:
    return thread_autocast.dtype;
  case AutocastRule::kFloat32:
    return DType::kFloat32;
  case AutocastRule::kAsGiven:
    break;
  }
  return dtype;
}

} // namespace recorder
} // namespace weft
