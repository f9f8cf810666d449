// What the failure of a run says besides its message: where the instruction was recorded, and
// whether the run may be undone, and whose run it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace weft::runtime {

// The failure of an instruction that was recorded at `location`, "train.cpp:31". The message begins
// with it. All else that the failure says stays.
absl::Status with_location(const absl::Status &failure, std::string_view location);
// The same at another line.
absl::Status moved_to(const absl::Status &located, std::string_view location);
// The failure of a library's call: the message begins with the name of its entry. All else stays.
absl::Status with_entry(const absl::Status &failure, std::string_view entry);
// The line of the user's, and the message without it.
struct LocatedFailure {
  std::string file;
  int line;
  std::string message;
};
std::optional<LocatedFailure> located(const absl::Status &failure);

// The failure of a run that has written no kept input: those that are written only after every
// check that can end a run (compiler/plan). Whoever gave them may take them back.
absl::Status with_kept_inputs(absl::Status failure);
bool has_kept_inputs(const absl::Status &failure);

// The failure of a run that a thread with this number asked for. Runs that are skipped since they
// read what it has lost fail of the same.
absl::Status as_of_thread(absl::Status failure, uint64_t thread);
// Whether one thread asked for both runs, or the failures are equal, of runs that do not say.
bool are_of_one_thread(const absl::Status &a, const absl::Status &b);

} // namespace weft::runtime
