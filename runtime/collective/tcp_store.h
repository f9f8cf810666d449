// The store of ranks that are processes: rank 0 listens (store_server.h), all connect to it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/collective/store.h"
#include "runtime/collective/world.h"

namespace weft::runtime {

// Gives all ranks the text that rank 0 has: how ranks meet whose world has no meeting place.
using Meet = std::function<absl::Status(std::string &text)>;

// Returns when all ranks have come. Errors, within world.meeting_seconds(): DeadlineExceeded names
// the ranks that are late; FailedPrecondition for a rank of another job, a rank that is there
// twice, or something else that listens at the port; InvalidArgument for another number of ranks,
// and where there is neither a meeting place nor `meet`; Unavailable where rank 0 cannot listen or
// be reached.
absl::StatusOr<std::unique_ptr<Store>> connect_store(const World &world,
                                                     const Meet &meet = nullptr);

} // namespace weft::runtime
