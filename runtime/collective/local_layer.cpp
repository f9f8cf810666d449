// The layer "local": ranks are threads of one process. The reference for other layers: a message is
// one copy, from the sender's memory to the receiver's, made by whichever side comes second.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>

#include "runtime/abi/weft_collective.h"

namespace weft::runtime {
namespace {

struct Connection;

struct Transfer {
  weft_collective_transfer *transfer;
  Connection *owner;
  enum { kPosted, kCopying, kDone, kFailed } state = kPosted;
  const char *why = nullptr;
};

struct Queue { // at most one of them holds something
  std::deque<Transfer *> sends, receives;
};

// All of one world is under its mutex, but for the copies.
struct World {
  std::mutex mutex;
  std::condition_variable arrival;
  int32_t arrived = 0; // ranks; those that have left are among them
  std::map<int32_t, Connection *> ranks;
  std::map<std::tuple<int32_t, int32_t, uint64_t>, Queue> queues; // from, to, channel
};

struct Connection {
  std::shared_ptr<World> world;
  int32_t rank;
  std::condition_variable changed; // of a transfer of this rank's
  bool aborted = false;
  std::unordered_map<Transfer *, std::unique_ptr<Transfer>> transfers;
};

constexpr const char *kGone = "it has closed the connection";

// Those that live, by session.
std::shared_ptr<World> world_of(const std::string &session) {
  static std::mutex *mutex = new std::mutex;
  static auto *worlds = new std::map<std::string, std::weak_ptr<World>>;
  std::lock_guard lock(*mutex);
  std::erase_if(*worlds, [](const auto &entry) { return entry.second.expired(); });
  std::weak_ptr<World> &entry = (*worlds)[session];
  std::shared_ptr<World> world = entry.lock();
  if (!world)
    entry = world = std::make_shared<World>();
  return world;
}

const char *connect(const weft_collective_world *given, void **connection) {
  auto own = std::make_unique<Connection>();
  own->world = world_of(given->session);
  own->rank = given->rank;
  World &world = *own->world;
  std::unique_lock lock(world.mutex);
  world.ranks[own->rank] = own.get();
  ++world.arrived;
  world.arrival.notify_all();
  auto all = [&] {
    return world.arrived == given->size;
  };
  if (!world.arrival.wait_for(lock, std::chrono::milliseconds(given->timeout_ms), all)) {
    world.ranks.erase(own->rank);
    return "not all ranks are threads of this process";
  }
  *connection = own.release();
  return nullptr;
}

// Under the lock, which it gives up for the copy.
void copy(std::unique_lock<std::mutex> &lock, Transfer &from, Transfer &to) {
  if (from.transfer->bytes != to.transfer->bytes) {
    from.state = to.state = Transfer::kFailed;
    from.why = to.why = "a message has another size there";
  } else {
    from.state = to.state = Transfer::kCopying;
    lock.unlock();
    std::memcpy(to.transfer->data, from.transfer->data, static_cast<size_t>(to.transfer->bytes));
    lock.lock();
    from.state = to.state = Transfer::kDone;
  }
  from.owner->changed.notify_all();
  to.owner->changed.notify_all();
}

const char *post(void *connection, weft_collective_transfer *transfer) {
  auto &own = *static_cast<Connection *>(connection);
  World &world = *own.world;
  std::unique_lock lock(world.mutex);
  auto peer = world.ranks.find(transfer->peer);
  if (own.aborted)
    return "this rank has closed the connection";
  if (peer == world.ranks.end() || peer->second->aborted)
    return kGone;
  auto made = std::make_unique<Transfer>(Transfer{transfer, &own});
  Transfer *one = made.get();
  own.transfers[one] = std::move(made);
  transfer->layer = one;
  bool sends = transfer->is_send;
  auto key = sends ? std::tuple(own.rank, transfer->peer, transfer->channel)
                   : std::tuple(transfer->peer, own.rank, transfer->channel);
  Queue &queue = world.queues[key];
  std::deque<Transfer *> &others = sends ? queue.receives : queue.sends;
  if (others.empty()) {
    (sends ? queue.sends : queue.receives).push_back(one);
    return nullptr;
  }
  Transfer *other = others.front();
  others.pop_front();
  if (others.empty())
    world.queues.erase(key);
  copy(lock, sends ? *one : *other, sends ? *other : *one);
  return nullptr;
}

int32_t wait(void *connection, weft_collective_transfer *transfer, int64_t timeout_ms,
             const char **why) {
  auto &own = *static_cast<Connection *>(connection);
  auto *one = static_cast<Transfer *>(transfer->layer);
  std::unique_lock lock(own.world->mutex);
  auto ended = [&] {
    return one->state == Transfer::kDone || one->state == Transfer::kFailed;
  };
  if (!own.changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), ended))
    return WEFT_TRANSFER_LATE;
  if (one->state == Transfer::kFailed) {
    *why = one->why;
    return WEFT_TRANSFER_FAILED;
  }
  own.transfers.erase(one);
  return WEFT_TRANSFER_DONE;
}

void abort(void *connection) {
  auto &own = *static_cast<Connection *>(connection);
  World &world = *own.world;
  std::unique_lock lock(world.mutex);
  own.aborted = true;
  for (auto it = world.queues.begin(); it != world.queues.end();) {
    auto [from, to, channel] = it->first;
    if (from != own.rank && to != own.rank) {
      ++it;
      continue;
    }
    for (std::deque<Transfer *> *queue : {&it->second.sends, &it->second.receives})
      for (Transfer *one : *queue) {
        one->state = Transfer::kFailed;
        one->why = one->owner == &own ? "this rank has closed the connection" : kGone;
      }
    it = world.queues.erase(it);
  }
  for (auto [rank, one] : world.ranks)
    one->changed.notify_all();
  own.changed.wait(lock, [&] {
    for (const auto &[one, owned] : own.transfers)
      if (one->state == Transfer::kCopying)
        return false;
    return true;
  });
}

void close(void *connection) {
  std::unique_ptr<Connection> own(static_cast<Connection *>(connection));
  abort(own.get());
  std::lock_guard lock(own->world->mutex);
  own->world->ranks.erase(own->rank);
}

const char *const kRegistered = [] {
  weft_collective_layer layer = {};
  layer.struct_size = sizeof layer;
  layer.version = WEFT_COLLECTIVE_ABI_VERSION;
  layer.name = "local";
  layer.connect = connect;
  layer.post = post;
  layer.wait = wait;
  layer.abort = abort;
  layer.close = close;
  return weft_register_collective_layer(&layer);
}();

} // namespace
} // namespace weft::runtime
