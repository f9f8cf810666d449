// How collectives are made of messages. Private.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/abi/weft_collective.h"
#include "runtime/collective/call.h"
#include "runtime/collective/link.h"

namespace weft::runtime {

// The messages of one call, in the order in which they are posted and waited for. Ranks are the
// group's. An error is the job's failure, which all ranks have been told: when it is returned, no
// memory of a message is touched any more, so that the caller may free it. Larger data goes in
// several messages, so that the time for one says whether a rank is alive, not how much there is to
// send.
class Messages {
public:
  // `what` tells the call, for errors: "barrier() at train.cpp:12, number 2 of group 'world'".
  Messages(Link &link, const std::vector<int> &members, uint64_t channel,
           std::function<std::string()> what)
      : link_(link), members_(members), channel_(channel), what_(std::move(what)) {}

  absl::Status send(int to, const void *data, int64_t bytes);
  absl::Status receive(int from, void *data, int64_t bytes);
  // Waits for those that were posted before `mark` = posted(), for each no longer than the timeout
  // after the one before it: what moves on is not late.
  int64_t posted() const {
    return first_ + static_cast<int64_t>(transfers_.size());
  }
  absl::Status wait(int64_t mark);
  absl::Status wait() {
    return wait(posted());
  }
  // Waits for all of them, no longer than the timeout together: for what says that ranks are there.
  absl::Status wait_for_ranks();

private:
  absl::Status post(int peer, bool is_send, void *data, int64_t bytes);
  absl::Status wait_for_first(Deadline deadline);

  Link &link_;
  const std::vector<int> &members_;
  uint64_t channel_;
  std::function<std::string()> what_;
  std::deque<weft_collective_transfer> transfers_; // those not waited for; they stand still
  int64_t first_ = 0;
};

// Exchanges the data of a call that does not fit into first messages, after those have shown that
// all ranks make it.
absl::Status exchange(const CollectiveCall &call, int me, int size, Messages &messages);

// Elements [first, second) of `count` that rank `rank` of `size` adds up.
std::pair<int64_t, int64_t> part_of(int64_t count, int rank, int size);

} // namespace weft::runtime
