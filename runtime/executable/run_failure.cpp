#include "runtime/executable/run_failure.h"

#include <charconv>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace weft::runtime {

static constexpr char kKeptInputs[] = "weft/kept_inputs";
static constexpr char kLocation[] = "weft/location";
static constexpr char kThread[] = "weft/thread";

absl::Status with_location(const absl::Status &failure, std::string_view location) {
  absl::Status result(
      failure.code(),
      absl::StrCat(absl::string_view(location.data(), location.size()), ": ", failure.message()));
  failure.ForEachPayload(
      [&](absl::string_view type, const absl::Cord &payload) { result.SetPayload(type, payload); });
  result.SetPayload(kLocation, absl::Cord(absl::string_view(location.data(), location.size())));
  return result;
}

absl::Status moved_to(const absl::Status &failure, std::string_view location) {
  std::optional<LocatedFailure> known = located(failure);
  absl::Status bare(failure.code(), known ? known->message : std::string(failure.message()));
  failure.ForEachPayload(
      [&](absl::string_view type, const absl::Cord &payload) { bare.SetPayload(type, payload); });
  return with_location(bare, location);
}

absl::Status with_entry(const absl::Status &failure, std::string_view entry) {
  absl::Status result(failure.code(), absl::StrCat(absl::string_view(entry.data(), entry.size()),
                                                   ": ", failure.message()));
  failure.ForEachPayload(
      [&](absl::string_view type, const absl::Cord &payload) { result.SetPayload(type, payload); });
  return result;
}

std::optional<LocatedFailure> located(const absl::Status &failure) {
  auto payload = failure.GetPayload(kLocation);
  if (!payload)
    return std::nullopt;
  std::string location(*payload);
  size_t colon = location.rfind(':');
  LocatedFailure result{location.substr(0, colon), 0, std::string(failure.message())};
  if (colon != std::string::npos)
    std::from_chars(location.data() + colon + 1, location.data() + location.size(), result.line);
  result.message.erase(0, location.size() + 2);
  return result;
}

absl::Status with_kept_inputs(absl::Status failure) {
  failure.SetPayload(kKeptInputs, absl::Cord());
  return failure;
}

bool has_kept_inputs(const absl::Status &failure) {
  return failure.GetPayload(kKeptInputs).has_value();
}

absl::Status as_of_thread(absl::Status failure, uint64_t thread) {
  std::string number = absl::StrCat(thread);
  failure.SetPayload(kThread, absl::Cord(absl::string_view(number)));
  return failure;
}

bool are_of_one_thread(const absl::Status &a, const absl::Status &b) {
  auto thread = a.GetPayload(kThread);
  return thread ? thread == b.GetPayload(kThread) : a == b;
}

} // namespace weft::runtime
