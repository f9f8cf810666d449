// Where the ranks of a job meet before they are connected, and agree on what went wrong after it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::runtime {

using Deadline = std::chrono::steady_clock::time_point;

// One rank's end of it. Functions may be called from any thread.
class Store {
public:
  virtual ~Store() = default;

  virtual absl::Status set(const std::string &name, const std::string &value) = 0;
  // Waits until some rank has set it. DeadlineExceeded; Unavailable after a failure.
  virtual absl::StatusOr<std::string> get(const std::string &name, Deadline deadline) = 0;

  // The first failure that a rank states is the job's: every rank gets it. Returns it; `failure`
  // itself where the others cannot be asked before the deadline.
  virtual std::string fail(const std::string &failure, Deadline deadline) = 0;
  // Calls back once, with the job's failure, from any thread and at once where it is there already.
  virtual void watch(std::function<void(const std::string &failure)> callback) = 0;
  // This rank ends in order. No callback is under way after it, and none comes.
  virtual void leave() = 0;

  // The same on all ranks, and on those of no other job.
  virtual const std::string &session() const = 0;
  // A numeric address of this rank, as the others may reach it.
  virtual const std::string &address() const = 0;
};

// A failure as text that keeps its code.
std::string encode_failure(const absl::Status &status);
absl::Status decode_failure(const std::string &text);

// Failures that are seen in several places. `how`: what says that the rank has gone, if more is
// known than the end of its connection.
absl::Status rank_gone(int rank, std::string_view how = "");
absl::Status rank_without_memory(int rank);

// For ranks that are threads of this process: one for each rank.
std::vector<std::unique_ptr<Store>> local_stores(int size);

} // namespace weft::runtime
