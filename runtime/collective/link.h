// One rank's connection with the others, and what all ranks know of a failure. Private.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/abi/weft_collective.h"
#include "runtime/collective/store.h"
#include "runtime/collective/tcp_store.h"
#include "runtime/collective/world.h"

namespace weft::runtime {

class Link {
public:
  static absl::StatusOr<std::shared_ptr<Link>> connect(const World &world, std::string_view layer,
                                                       std::shared_ptr<Store> store);
  // The way to meet that a layer of this name has; null if it has none.
  static Meet meeting(const World &world, std::string_view layer);
  ~Link();
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  int rank() const {
    return world_.rank;
  }
  int size() const {
    return world_.size;
  }
  double timeout_seconds() const {
    return world_.timeout_seconds;
  }
  absl::Status status() const;
  // This rank ends in order, and the others may go on among themselves. No call may be under way,
  // and none may follow.
  void leave();

  // The job ends: with `why`, or with what another rank has said first. Returns that, when no
  // memory of a transfer is touched any more.
  absl::Status fail(const absl::Status &why);
  // What a rank waits for: another rank, on a group's channel, in a call.
  struct Wait {
    int peer;
    uint64_t channel;
    std::string what;
  };
  // The same for a rank that is silent for too long. That one may wait for another in its turn,
  // whose silence both see at once: who is named waits for nobody. Ranks that wait for each other
  // in calls of several groups are named with their calls instead.
  absl::Status fail_late(const Wait &wait);

  // Connects the ranks' devices, too, through a layer that has them.
  absl::Status add_devices(std::string_view layer);
  // Null, or a group of one rank: there are none.
  const weft_collective_layer *device_layer() const {
    return devices_ ? &device_layer_ : nullptr;
  }
  absl::Status enqueue(const weft_collective_call &call);
  absl::StatusOr<void *> split_devices(void *group, int color, int rank);
  void leave_devices(void *group);

  // Null or why not, as the layer says it. Where one of its functions throws, in C++, the job has
  // ended with an error that names the layer and the function.
  const char *post(weft_collective_transfer &transfer);
  // What the layer's wait() gives.
  int32_t wait(weft_collective_transfer &transfer, Deadline deadline, const char *&why);
  // From now on: what waits until then leaves enough of the timeout for all ranks to agree.
  Deadline deadline() const;

private:
  Link(const World &world, const weft_collective_layer &layer, std::shared_ptr<Store> store)
      : world_(world), layer_(layer), store_(std::move(store)) {}
  absl::StatusOr<void *> open(const weft_collective_layer &layer);
  void end(const std::string &failure);
  // The job ends because the function of the layer threw. In a catch block only.
  void fail_thrown(const weft_collective_layer &layer, const char *function);
  void abort();
  absl::Status fail(const absl::Status &why, Deadline agreed);
  // Of the timeout, what is kept for agreeing on a failure.
  std::chrono::milliseconds agreement() const;

  World world_;
  weft_collective_layer layer_;
  std::shared_ptr<Store> store_;
  void *connection_ = nullptr;
  weft_collective_layer device_layer_ = {};
  std::atomic<void *> devices_ = nullptr; // their connection
  mutable std::mutex mutex_;
  absl::Status status_; // under it
};

// A thread that no signal is delivered to: signals are the program's.
std::thread start_thread(void (*body)(void *), void *data);

} // namespace weft::runtime
