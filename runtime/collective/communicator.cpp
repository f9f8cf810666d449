#include "runtime/collective/communicator.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/collective/algorithms.h"
#include "runtime/collective/link.h"
#include "runtime/collective/reduce.h"
#include "runtime/core/status.h"
#include "runtime/profile/profile.h"

namespace weft::runtime {
namespace {

// "all_reduce(sum, float32 x 10) at train.cpp:12".
std::string described(const CollectiveCall &call) {
  return absl::StrCat(describe(call), call.place.empty() ? "" : " at ", call.place);
}

// The channel of a group: the same on all of its ranks, since it follows from where and when the
// group was split off. Murmur's finalizer.
uint64_t mixed(uint64_t channel, uint64_t number) {
  uint64_t x = channel * 0x9e3779b97f4a7c15u + number;
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
  return x ^ x >> 33;
}

// The part of the input that goes to `rank` in a first message.
const char *part_for(const CollectiveCall &call, int rank, int64_t bytes) {
  bool each = call.kind == Collective::kReduceScatter || call.kind == Collective::kAllToAll;
  return static_cast<const char *>(call.input) + (each ? rank * bytes : 0);
}

// The call's result from what came with first messages; `from(r)` is what rank r has sent, or this
// rank's own.
template <typename From> void finish(const CollectiveCall &call, int me, int size, From from) {
  const int64_t bytes = call.count * byte_size(call.dtype);
  auto *output = static_cast<char *>(call.output);
  auto take = [&](int rank, char *to) {
    if (bytes > 0 && from(rank) != to)
      std::memmove(to, from(rank), static_cast<size_t>(bytes));
  };
  switch (call.kind) {
  case Collective::kAllReduce:
  case Collective::kReduceScatter: {
    std::vector<const void *> parts(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank)
      parts[static_cast<size_t>(rank)] = from(rank);
    return reduce(call.dtype, call.reduction, parts, output, call.count);
  }
  case Collective::kAllGather:
  case Collective::kAllToAll:
  case Collective::kSplit:
    for (int rank = 0; rank < size; ++rank)
      take(rank, output + rank * bytes);
    return;
  case Collective::kBroadcast:
  case Collective::kReceive:
    return take(call.peer, output);
  case Collective::kSendReceive:
    if (call.source != kNoRank)
      take(call.source, output);
    else if (bytes > 0)
      std::memset(output, 0, static_cast<size_t>(bytes));
    return;
  case Collective::kSend:
  case Collective::kBarrier:
    return;
  }
}

} // namespace

Group::Group(std::shared_ptr<Link> link, std::vector<int> members, int me, uint64_t channel,
             std::string name)
    : link_(std::move(link)), members_(std::move(members)), me_(me), channel_(channel),
      name_(std::move(name)), started_with_(members_.size()) {}

Group::~Group() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    work_.notify_one();
  }
  if (thread_.joinable())
    thread_.join();
  if (devices_)
    link_->leave_devices(devices_);
}

absl::Status Group::put_on_stream(const CollectiveCall &call, void *stream) {
  if (call.count == 0)
    return absl::OkStatus();
  weft_collective_call given = {};
  given.struct_size = sizeof given;
  given.kind = static_cast<int32_t>(call.kind);
  given.reduction = static_cast<int32_t>(call.reduction);
  given.dtype = static_cast<int32_t>(call.dtype);
  given.peer = call.peer;
  given.count = call.count;
  given.input = call.input;
  given.output = call.output;
  given.stream = stream;
  given.group = devices_;
  given.size = size();
  given.place = call.place.c_str();
  absl::Status status = link_->enqueue(given);
  return status.ok()
             ? status
             : absl::Status(status.code(), absl::StrCat(described(call), ": rank ", link_->rank(),
                                                        ": ", status.message()));
}

// In the child of a fork(), locks of the link may be held for good.
static absl::Status not_in_child() {
  return is_forked_child() ? absl::FailedPreconditionError(why_not_compute()) : absl::OkStatus();
}

absl::StatusOr<Group::Item> Group::enqueue(CollectiveCall call, void **stream) {
  if (absl::Status status = not_in_child(); !status.ok())
    return absl::Status(status.code(), absl::StrCat(described(call), ": ", status.message()));
  WEFT_RETURN_IF_ERROR(check(call, me_, size()));
  if (absl::Status status = link_->status(); !status.ok())
    return absl::Status(status.code(), absl::StrCat(status.message(), ". Rank ", link_->rank(),
                                                    " has not started ", described(call)));
  // On the stream, too, calls are in the order of their numbers.
  std::unique_lock<std::mutex> order(stream_order_, std::defer_lock);
  if (stream)
    order.lock();
  std::unique_lock lock(mutex_);
  try {
    if (!thread_.joinable())
      thread_ = start_thread([](void *group) { static_cast<Group *>(group)->loop(); }, this);
  } catch (const std::system_error &error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there is no thread for group '", name_, "': ", error.what()));
  }
  // Sends and receives are counted between two ranks: the others know nothing of them.
  uint64_t number =
      is_between_two(call.kind) ? ++started_with_[static_cast<size_t>(call.peer)] : ++started_;
  Item item{std::move(call), number, std::make_shared<Event>(), stream != nullptr};
  queue_.push_back(item);
  work_.notify_one();
  lock.unlock();
  // Ranks compare the call meanwhile: this may wait for theirs.
  if (stream)
    if (absl::Status status = put_on_stream(item.call, *stream); !status.ok())
      return link_->fail(status);
  return item;
}

absl::StatusOr<std::shared_ptr<const Event>> Group::start(CollectiveCall call) {
  WEFT_ASSIGN_OR_RETURN(Item item, enqueue(std::move(call)));
  return item.event;
}

absl::StatusOr<std::shared_ptr<const Event>> Group::start_on_device(CollectiveCall call,
                                                                    void *stream) {
  if (call.kind >= Collective::kBarrier)
    return absl::InvalidArgumentError(
        absl::StrCat(describe(call), call.kind == Collective::kSendReceive
                                         ? ": on devices it is a send and a receive"
                                         : ": it moves no data; start it on the host"));
  if (!link_->device_layer())
    return absl::FailedPreconditionError(absl::StrCat(
        described(call), ": the ranks' devices are not connected (Communicator::add_devices)"));
  WEFT_ASSIGN_OR_RETURN(Item item, enqueue(std::move(call), &stream));
  return item.event;
}

absl::Status Group::run(CollectiveCall call) {
  auto event = start(std::move(call));
  return event.ok() ? (*event)->wait() : event.status();
}

std::string Group::text_of(const Item &item) const {
  return absl::StrCat(described(item.call), ", number ", item.number, " of group '", name_, "'");
}

// With the wait for the other ranks.
static profile::Label label_of(const CollectiveCall &call, const std::string &group) {
  return {profile::Kind::kCollective,
          describe(call),
          profile::Args().add("line", call.place).add("group", group).take(),
          "",
          0,
          static_cast<double>(call.count * byte_size(call.dtype))};
}

void Group::loop() {
  profile::name_thread("collectives of " + name_);
  for (;;) {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [&] { return !queue_.empty() || ending_; });
    if (queue_.empty())
      return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    absl::Status status;
    try {
      profile::Span span([&] { return label_of(item.call, name_); });
      status = execute(item);
    } catch (const std::bad_alloc &) { // before anything was posted into what it allocates
      status = link_->fail(rank_without_memory(link_->rank()));
    }
    if (!status.ok())
      status = absl::Status(status.code(), absl::StrCat(status.message(), ". Rank ", link_->rank(),
                                                        " was in ", text_of(item)));
    item.event->complete(std::move(status));
  }
}

absl::Status Group::execute(const Item &item) {
  const CollectiveCall &call = item.call;
  const int64_t bytes = call.count * byte_size(call.dtype);
  WEFT_RETURN_IF_ERROR(link_->status());
  auto own = [&] {
    return part_for(call, me_, bytes);
  };
  if (size() == 1) {
    if (!item.on_device)
      finish(call, me_, 1, [&](int) { return own(); });
    return absl::OkStatus();
  }
  sent_.resize(static_cast<size_t>(kMessageBytes * size()));
  received_.resize(sent_.size());
  bool is_small = bytes <= kInlineBytes;
  bool has_input = !item.on_device && call.kind != Collective::kReceive &&
                   call.kind != Collective::kBarrier &&
                   (call.kind != Collective::kBroadcast || call.peer == me_);
  const CallHeader header = header_of(call, item.number, item.on_device);
  Messages messages(*link_, members_, channel_, [&] { return text_of(item); });
  auto is_peer = [&](int rank) {
    return rank != me_ && (!is_between_two(call.kind) || rank == call.peer);
  };
  auto message = [&](std::vector<char> &all, int rank) {
    return &all[rank * kMessageBytes];
  };
  for (int distance = 1; distance < size(); ++distance) {
    int to = (me_ + distance) % size(), from = (me_ + size() - distance) % size();
    if (is_peer(to)) {
      char *out = message(sent_, to);
      std::memcpy(out, &header, sizeof header);
      if (is_small && has_input && bytes > 0)
        std::memcpy(out + sizeof header, part_for(call, to, bytes), static_cast<size_t>(bytes));
      WEFT_RETURN_IF_ERROR(messages.send(to, out, kMessageBytes));
    }
    if (is_peer(from))
      WEFT_RETURN_IF_ERROR(messages.receive(from, message(received_, from), kMessageBytes));
  }
  WEFT_RETURN_IF_ERROR(messages.wait_for_ranks());
  for (int rank = 0; rank < size(); ++rank) {
    if (!is_peer(rank))
      continue;
    CallHeader theirs;
    std::memcpy(&theirs, message(received_, rank), sizeof theirs);
    int of_job = members_[static_cast<size_t>(rank)];
    if (absl::Status status = check_same(header, theirs, link_->rank(), of_job, me_, rank, name_);
        !status.ok())
      return link_->fail(status);
  }
  if (item.on_device)
    return absl::OkStatus();
  if (is_small) {
    finish(call, me_, size(), [&](int rank) {
      return rank == me_ ? own() : message(received_, rank) + sizeof header;
    });
    return absl::OkStatus();
  }
  return exchange(call, me_, size(), messages);
}

absl::StatusOr<std::shared_ptr<Group>> Group::split(int64_t color, int64_t key, std::string name,
                                                    std::string place, std::string what) {
  const int64_t own[2] = {color, key};
  std::vector<int64_t> all(2 * members_.size());
  CollectiveCall call;
  call.kind = Collective::kSplit;
  call.dtype = DType::kInt64;
  call.count = 2;
  call.input = own;
  call.output = all.data();
  call.place = std::move(place);
  call.operand = what.empty() ? absl::StrCat("split('", name, "')") : std::move(what);
  WEFT_ASSIGN_OR_RETURN(Item item, enqueue(std::move(call)));
  WEFT_RETURN_IF_ERROR(item.event->wait());
  std::vector<std::pair<int64_t, int>> chosen; // key, rank of this group
  for (int rank = 0; rank < size() && color >= 0; ++rank)
    if (all[2 * static_cast<size_t>(rank)] == color)
      chosen.emplace_back(all[2 * static_cast<size_t>(rank) + 1], rank);
  std::sort(chosen.begin(), chosen.end());
  std::vector<int> members;
  int me = 0;
  for (auto [key_of, rank] : chosen) {
    if (rank == me_)
      me = static_cast<int>(members.size());
    members.push_back(members_[static_cast<size_t>(rank)]);
  }
  void *devices = nullptr;
  if (link_->device_layer()) {
    // Devices know colors of 32 bits: the first member stands for the group's.
    WEFT_ASSIGN_OR_RETURN(auto made,
                          link_->split_devices(devices_, color < 0 ? -1 : members[0], me));
    devices = made;
  }
  if (color < 0)
    return nullptr;
  std::shared_ptr<Group> group(
      new Group(link_, std::move(members), me, mixed(channel_, item.number), std::move(name)),
      DeleteUnlessForked());
  group->devices_ = devices;
  return group;
}

absl::StatusOr<Communicator> Communicator::connect(const World &world, std::string_view layer) {
  if (world.size == 1)
    return connect(world, layer, nullptr);
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Store> store,
                        connect_store(world, Link::meeting(world, layer)));
  return connect(world, layer, std::move(store));
}

absl::StatusOr<Communicator> Communicator::connect(const World &world, std::string_view layer,
                                                   std::shared_ptr<Store> store) {
  WEFT_ASSIGN_OR_RETURN(auto link, Link::connect(world, layer, std::move(store)));
  std::vector<int> members(static_cast<size_t>(world.size));
  for (int rank = 0; rank < world.size; ++rank)
    members[static_cast<size_t>(rank)] = rank;
  std::shared_ptr<Group> group(new Group(link, std::move(members), world.rank, 1, "world"),
                               DeleteUnlessForked());
  return Communicator(std::move(link), std::move(group));
}

absl::Status Communicator::add_devices(std::string_view layer) {
  WEFT_RETURN_IF_ERROR(not_in_child());
  return link_->add_devices(layer);
}

absl::Status Communicator::status() const {
  WEFT_RETURN_IF_ERROR(not_in_child());
  return link_->status();
}

// The child of a fork() has the rank's connections, but is not the rank: that one goes on.
void Communicator::fail(const absl::Status &why) {
  if (!is_forked_child())
    (void)link_->fail(why);
}

void Communicator::leave() {
  if (!is_forked_child())
    link_->leave();
}

} // namespace weft::runtime
