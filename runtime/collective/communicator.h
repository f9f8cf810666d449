// The ranks of a job, connected; groups of them; collectives on buffers, which are started and
// waited for later.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/collective/call.h"
#include "runtime/collective/store.h"
#include "runtime/collective/world.h"
#include "runtime/core/ends.h"
#include "runtime/memory/event.h"

namespace weft::runtime {

class Link; // this rank's connection, and the job's failure (link.h)

// Some ranks of a job. Calls of a group run in the order in which they are started, one at a time,
// on a thread of the group's; those of different groups run at once. All ranks of a group must
// start the same calls in the same order; ranks compare that before they exchange data. Functions
// may be called from any thread.
//
// Sums are in rank order: every element is added up by one rank, from the group's rank 0 on. So the
// bits of a result depend on neither time nor network nor layer nor how the data is cut. Up to
// kInlineBytes each rank gets all contributions and adds them up itself (one exchange); beyond it,
// rank r adds up the r-th part and gives the result to all (reduce-scatter and all-gather, 2 (n-1)
// / n times the data sent and received by each rank, as in a ring, in pieces, so that sums overlap
// with traffic). What it costs beside a ring: messages to n - 1 ranks instead of one, and
// connections to all.
//
// After a failure of any rank, every call of every group of the job ends with the same error, those
// under way within the timeout, later ones at once.
class Group {
public:
  // Waits for what was started.
  ~Group();
  Group(const Group &) = delete;
  Group &operator=(const Group &) = delete;

  int rank() const {
    return me_;
  }
  int size() const {
    return static_cast<int>(members_.size());
  }
  const std::string &name() const {
    return name_;
  }

  // Starts a call and returns. The buffers must stay as they are until the event is complete; its
  // status is the call's. InvalidArgument, and nothing is started, for what no rank may call.
  absl::StatusOr<std::shared_ptr<const Event>> start(CollectiveCall call);
  // start() and the wait.
  absl::Status run(CollectiveCall call);

  // Starts a call on memory of this rank's device: it is put on the stream (of the device; a
  // CUstream) before this returns, and runs in the stream's order. Sums are in the order of the
  // layer's library. The event says that all ranks have made the same call, or the job's failure,
  // after which devices do not wait for each other any more; that the buffers are free, the stream
  // alone says. InvalidArgument, and the job ends, where the layer cannot: the others have begun.
  absl::StatusOr<std::shared_ptr<const Event>> start_on_device(CollectiveCall call, void *stream);

  // Ranks that give the same color become a group, ordered by key and then by rank; null for those
  // that give a negative color. All ranks of this group call it, with one `name` and one `what`:
  // the call that the program makes, for errors; empty: "split(name)". Groups may overlap and
  // outlive the one they come from.
  absl::StatusOr<std::shared_ptr<Group>> split(int64_t color, int64_t key, std::string name,
                                               std::string place = "", std::string what = "");

  static constexpr int64_t kMessageBytes = 4096;
  static constexpr int64_t kInlineBytes = kMessageBytes - static_cast<int64_t>(sizeof(CallHeader));

private:
  friend class Communicator;
  struct Item {
    CollectiveCall call;
    uint64_t number;
    std::shared_ptr<Event> event;
    bool on_device = false; // its data does not pass here
  };

  Group(std::shared_ptr<Link> link, std::vector<int> members, int me, uint64_t channel,
        std::string name);
  absl::StatusOr<Item> enqueue(CollectiveCall call, void **stream = nullptr);
  absl::Status put_on_stream(const CollectiveCall &call, void *stream);
  // "barrier() at train.cpp:12, number 2 of group 'world'"
  std::string text_of(const Item &item) const;
  void loop();
  absl::Status execute(const Item &item);

  std::shared_ptr<Link> link_;
  std::vector<int> members_; // ranks of the job
  int me_;
  uint64_t channel_;
  std::string name_;
  void *devices_ = nullptr;           // of a group that was split off, the device layer's
  std::vector<char> sent_, received_; // first messages of a call, one for each rank

  std::mutex stream_order_; // before mutex_: of calls on devices, one is started at a time
  std::mutex mutex_;        // of all below
  std::condition_variable work_;
  std::deque<Item> queue_;
  uint64_t started_ = 0;
  std::vector<uint64_t> started_with_; // sends and receives, by rank
  bool ending_ = false;
  std::thread thread_; // from the first call on
};

class Communicator {
public:
  // Meets the other ranks and connects with them through the layer of this name. All ranks call it.
  // Errors name what is missing, late, or different, on every rank.
  static absl::StatusOr<Communicator> connect(const World &world, std::string_view layer);
  // The same over a store that is there: for threads, local_stores().
  static absl::StatusOr<Communicator> connect(const World &world, std::string_view layer,
                                              std::shared_ptr<Store> store);

  // All ranks.
  const std::shared_ptr<Group> &world() const {
    return world_;
  }
  // Connects the ranks' devices through a layer of devices ("nccl"), each rank's current one. All
  // ranks call it, once, before they split groups.
  absl::Status add_devices(std::string_view layer);
  // Ok, or the job's failure.
  absl::Status status() const;
  // Ends the job on all ranks with this error.
  void fail(const absl::Status &why);
  // This rank's part ends in order, as in the destructor: for a process that is about to end.
  void leave();

private:
  Communicator(std::shared_ptr<Link> link, std::shared_ptr<Group> world)
      : link_(std::move(link)), world_(std::move(world)) {}

  std::shared_ptr<Link> link_;
  std::shared_ptr<Group> world_;
};

} // namespace weft::runtime
