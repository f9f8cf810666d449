#include "runtime/executable/kept_inputs.h"

#include "absl/strings/cord.h"

namespace weft::runtime {

static constexpr char kPayload[] = "weft/kept_inputs";

absl::Status with_kept_inputs(absl::Status failure) {
  failure.SetPayload(kPayload, absl::Cord());
  return failure;
}

bool has_kept_inputs(const absl::Status &failure) {
  return failure.GetPayload(kPayload).has_value();
}

} // namespace weft::runtime
