// The layer "mpi": Open MPI, opened at run time, for clusters whose network it knows best. Of MPI
// its messages between two ranks; its reductions are not used, since their order depends on the
// library, the number of ranks and the size.
//
// MPI gets no memory of a transfer's, but copies: a message that has begun cannot be taken back
// there, and abort() must return while its peer is stopped.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/abi/weft_collective.h"
#include "runtime/collective/mpi_library.h"

namespace weft::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A channel has 64 bits, a tag of MPI 31 at most: a rank numbers the channels in which it sends to
// another one, and says so before the first message of each, in a notice of tag 0. So two channels
// never share a tag.
struct Notice {
  enum Kind : int64_t {
    kChannel, // the next tag is this channel's
    kEnd,     // the rank leaves; so many messages of this channel it has sent and received
    kGone,    // it has left
  };
  int64_t kind = kChannel;
  uint64_t channel = 0;
  int64_t sent = 0, received = 0;
};
constexpr int kNoticeTag = 0;

struct Transfer {
  weft_collective_transfer *given;
  int64_t number; // of its direction of its channel
  std::unique_ptr<char[]> data;
  MpiRequest request = nullptr;
  bool begun = false, done = false;
  std::string wrong = {};
};

// One direction of a channel.
struct Stream {
  int tag = 0; // 0: not known yet
  int64_t posted = 0, done = 0;
  std::deque<Transfer *> early = {}; // receives that wait for their tag
};

struct Peer {
  std::unordered_map<uint64_t, Stream> sends, receives;
  std::unordered_map<uint64_t, Notice> ends; // of channels, when it has left
  int tags_to = 0, tags_from = 0;            // that are given out
  bool is_gone = false;
};

struct Connection {
  std::mutex mutex; // of all below
  MpiCommunicator world = nullptr;
  int rank = 0;
  bool aborted = false;
  std::string wrong; // what MPI said of notices
  std::vector<Peer> peers;
  std::unordered_map<Transfer *, std::unique_ptr<Transfer>> transfers;
  Notice notice; // that comes
  MpiRequest notice_request = nullptr;
  std::list<std::pair<Notice, MpiRequest>> notices; // that go

  std::string send_notice(int to, Notice notice);
  std::string receive_notice();
  std::string begin(Transfer &transfer, int tag);
  std::string take(const Notice &notice, int from);
  std::string progress();
  bool is_hopeless(const Transfer &transfer);
  std::string test(Transfer &transfer);
  bool is_over();
};

const char *keep(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.empty() ? nullptr : kept.c_str();
}

constexpr const char *kClosed = "this rank has closed the connection";
constexpr const char *kPeerClosed = "it has closed the connection";

std::string Connection::send_notice(int to, Notice notice) {
  Mpi &mpi = Mpi::instance();
  notices.emplace_back(notice, nullptr);
  auto &[kept, request] = notices.back();
  return mpi.error(mpi.Isend(&kept, sizeof kept, mpi.byte, to, kNoticeTag, world, &request),
                   "MPI_Isend");
}

std::string Connection::receive_notice() {
  Mpi &mpi = Mpi::instance();
  return mpi.error(mpi.Irecv(&notice, sizeof notice, mpi.byte, kMpiAnySource, kNoticeTag, world,
                             &notice_request),
                   "MPI_Irecv");
}

std::string Connection::begin(Transfer &transfer, int tag) {
  Mpi &mpi = Mpi::instance();
  const weft_collective_transfer &given = *transfer.given;
  const int bytes = static_cast<int>(given.bytes);
  transfer.begun = true;
  if (given.is_send)
    return mpi.error(
        mpi.Isend(transfer.data.get(), bytes, mpi.byte, given.peer, tag, world, &transfer.request),
        "MPI_Isend");
  return mpi.error(
      mpi.Irecv(transfer.data.get(), bytes, mpi.byte, given.peer, tag, world, &transfer.request),
      "MPI_Irecv");
}

std::string Connection::take(const Notice &notice, int from) {
  Peer &peer = peers[static_cast<size_t>(from)];
  if (notice.kind == Notice::kGone)
    peer.is_gone = true;
  if (notice.kind == Notice::kEnd)
    peer.ends[notice.channel] = notice;
  if (notice.kind != Notice::kChannel)
    return "";
  Stream &stream = peer.receives[notice.channel];
  stream.tag = ++peer.tags_from;
  std::string wrong;
  for (; !stream.early.empty() && wrong.empty(); stream.early.pop_front())
    wrong = begin(*stream.early.front(), stream.tag);
  return wrong;
}

// Takes notices. MPI moves all messages on meanwhile.
std::string Connection::progress() {
  Mpi &mpi = Mpi::instance();
  for (;;) {
    for (auto it = notices.begin(); it != notices.end();) {
      int flag = 0;
      if (std::string why = mpi.error(mpi.Test(&it->second, &flag, nullptr), "MPI_Test");
          !why.empty())
        return why;
      it = flag ? notices.erase(it) : std::next(it);
    }
    MpiStatus status = {};
    int flag = 0;
    std::string why = mpi.error(mpi.Test(&notice_request, &flag, &status), "MPI_Test");
    if (!why.empty() || !flag)
      return why;
    if (why = take(notice, status.source); why.empty())
      why = receive_notice();
    if (!why.empty())
      return why;
  }
}

// Whether the peer has left and this is none of the messages that it has sent or received.
bool Connection::is_hopeless(const Transfer &transfer) {
  Peer &peer = peers[static_cast<size_t>(transfer.given->peer)];
  if (!peer.is_gone)
    return false;
  auto end = peer.ends.find(transfer.given->channel);
  if (end == peer.ends.end())
    return true;
  return transfer.number >= (transfer.given->is_send ? end->second.received : end->second.sent);
}

// Sees whether it is done; what went wrong otherwise.
std::string Connection::test(Transfer &transfer) {
  Mpi &mpi = Mpi::instance();
  MpiStatus status = {};
  int flag = 0;
  if (std::string why = mpi.error(mpi.Test(&transfer.request, &flag, &status), "MPI_Test");
      !why.empty())
    return why;
  if (!flag)
    return "";
  const weft_collective_transfer &given = *transfer.given;
  if (!given.is_send && status.bytes != static_cast<size_t>(given.bytes))
    return "a message has another size there";
  transfer.done = true;
  Peer &peer = peers[static_cast<size_t>(given.peer)];
  ++(given.is_send ? peer.sends : peer.receives)[given.channel].done;
  return "";
}

// Whether MPI has done with all memory of a connection that is closed.
bool Connection::is_over() {
  Mpi &mpi = Mpi::instance();
  auto is_done = [&](MpiRequest &request) {
    int flag = 0;
    return mpi.Test(&request, &flag, nullptr) == 0 && flag;
  };
  std::erase_if(transfers, [&](auto &entry) {
    Transfer &one = *entry.second;
    return one.done || !one.begun || is_done(one.request);
  });
  notices.remove_if([&](auto &notice) { return is_done(notice.second); });
  return is_done(notice_request) && transfers.empty() && notices.empty();
}

// Connections that are closed, while MPI still reads or writes something of theirs. Never
// destroyed: that may be so when the process ends.
class Leaving {
public:
  static Leaving &all() {
    static Leaving *all = new Leaving;
    return *all;
  }
  void add(std::unique_ptr<Connection> one) {
    std::lock_guard lock(mutex_);
    connections_.push_back(std::move(one));
  }
  void sweep() {
    std::lock_guard lock(mutex_);
    connections_.remove_if([](const auto &one) { return one->is_over(); });
  }

private:
  std::mutex mutex_;
  std::list<std::unique_ptr<Connection>> connections_;
};

// `world` gives rank, size and timeout.
std::string start(const weft_collective_world &world) {
  Mpi &mpi = Mpi::instance();
  if (std::string why = mpi.start(milliseconds(world.timeout_ms)); !why.empty())
    return why;
  if (mpi.size != world.size)
    return "MPI has " + std::to_string(mpi.size) + " ranks, the job " + std::to_string(world.size) +
           ": start all of them, and no others, by one mpirun";
  return "";
}

const char *meet(const weft_collective_world *world, void *data, int64_t bytes) {
  try {
    Mpi &mpi = Mpi::instance();
    if (std::string why = start(*world); !why.empty())
      return keep(why);
    // The thread may outlive this call, with what it reads and writes.
    auto shared = std::make_shared<std::vector<char>>(static_cast<const char *>(data),
                                                      static_cast<const char *>(data) + bytes);
    std::string why = mpi.run(
        [&mpi, shared] {
          return mpi.error(
              mpi.Bcast(shared->data(), static_cast<int>(shared->size()), mpi.byte, 0, mpi.world),
              "MPI_Bcast");
        },
        milliseconds(world->timeout_ms));
    if (why.empty())
      std::memcpy(data, shared->data(), shared->size());
    return keep(why);
  } catch (const std::exception &error) {
    return keep(error.what());
  }
}

const char *connect(const weft_collective_world *world, void **connection) {
  try {
    Mpi &mpi = Mpi::instance();
    if (std::string why = start(*world); !why.empty())
      return keep(why);
    // In the order of the job's ranks, which another starter may have numbered.
    auto made = std::make_shared<MpiCommunicator>();
    std::string why = mpi.run(
        [&mpi, made, rank = world->rank] {
          return mpi.error(mpi.Comm_split(mpi.world, 0, rank, made.get()), "MPI_Comm_split");
        },
        milliseconds(world->timeout_ms));
    if (!why.empty())
      return keep(why);
    Leaving::all().sweep();
    auto own = std::make_unique<Connection>();
    own->world = *made;
    own->rank = world->rank;
    own->peers.resize(static_cast<size_t>(world->size));
    if (why = own->receive_notice(); !why.empty())
      return keep(why);
    *connection = own.release();
    mpi.enter();
    return nullptr;
  } catch (const std::exception &error) {
    return keep(error.what());
  }
}

const char *post(void *connection, weft_collective_transfer *given) {
  auto &own = *static_cast<Connection *>(connection);
  if (given->bytes > INT_MAX)
    return "a message of MPI has 2147483647 bytes at most";
  try {
    auto made = std::make_unique<Transfer>();
    Transfer *one = made.get();
    one->given = given;
    one->data = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(given->bytes));
    if (given->is_send)
      std::memcpy(one->data.get(), given->data, static_cast<size_t>(given->bytes));
    std::lock_guard lock(own.mutex);
    if (own.aborted)
      return kClosed;
    Peer &peer = own.peers[static_cast<size_t>(given->peer)];
    Stream &stream = (given->is_send ? peer.sends : peer.receives)[given->channel];
    one->number = stream.posted;
    if (own.is_hopeless(Transfer{given, one->number, nullptr}))
      return kPeerClosed;
    if (given->is_send && stream.tag == 0) {
      if (peer.tags_to >= Mpi::instance().most_tags)
        return "this MPI has no more tags for groups: split fewer groups in one job";
      stream.tag = ++peer.tags_to;
      Notice notice;
      notice.channel = given->channel;
      if (std::string why = own.send_notice(given->peer, notice); !why.empty())
        return keep(why);
    }
    own.transfers[one] = std::move(made);
    given->layer = one;
    ++stream.posted;
    if (stream.tag == 0)
      stream.early.push_back(one);
    else if (std::string why = own.begin(*one, stream.tag); !why.empty())
      return keep(why);
    return nullptr;
  } catch (const std::exception &error) {
    return keep(error.what());
  }
}

// MPI has no wait with a timeout. A thread that has waited for longer gives its processor to
// others, which may be the ranks that it waits for.
void pause(steady_clock::duration waited) {
  if (waited < std::chrono::microseconds(200))
    sched_yield();
  else
    std::this_thread::sleep_for(std::clamp<steady_clock::duration>(
        waited / 16, std::chrono::microseconds(20), std::chrono::microseconds(500)));
}

int32_t wait(void *connection, weft_collective_transfer *given, int64_t timeout_ms,
             const char **why) {
  auto &own = *static_cast<Connection *>(connection);
  auto *one = static_cast<Transfer *>(given->layer);
  const auto begin = steady_clock::now(), end = begin + milliseconds(timeout_ms);
  for (;;) {
    const auto now = steady_clock::now();
    {
      std::lock_guard lock(own.mutex);
      std::string wrong;
      if (own.aborted)
        wrong = kClosed;
      // Before it: whether the peer had left is then known before it is seen that nothing came.
      if (wrong.empty())
        wrong = own.progress();
      bool is_hopeless = wrong.empty() && own.is_hopeless(*one);
      if (wrong.empty() && one->begun)
        wrong = own.test(*one);
      if (one->done) {
        if (!given->is_send)
          std::memcpy(given->data, one->data.get(), static_cast<size_t>(given->bytes));
        own.transfers.erase(one);
        return WEFT_TRANSFER_DONE;
      }
      if (wrong.empty() && is_hopeless)
        wrong = kPeerClosed;
      if (!wrong.empty()) {
        *why = keep(wrong);
        return WEFT_TRANSFER_FAILED;
      }
    }
    if (now >= end)
      return WEFT_TRANSFER_LATE;
    pause(now - begin);
  }
}

void abort(void *connection) {
  auto &own = *static_cast<Connection *>(connection);
  std::lock_guard lock(own.mutex);
  if (own.aborted)
    return;
  own.aborted = true;
  if (Mpi::instance().is_over())
    return;
  Mpi::instance().give_up();
  Notice gone;
  gone.kind = Notice::kGone;
  for (size_t peer = 0; peer < own.peers.size(); ++peer)
    if (static_cast<int>(peer) != own.rank && !own.peers[peer].is_gone)
      own.send_notice(static_cast<int>(peer), gone);
}

void close(void *connection) {
  std::unique_ptr<Connection> own(static_cast<Connection *>(connection));
  Mpi &mpi = Mpi::instance();
  struct Leave {
    ~Leave() {
      Mpi::instance().leave();
    }
  } leave;
  if (mpi.is_over())
    return Leaving::all().add(std::move(own));
  for (size_t rank = 0; rank < own->peers.size(); ++rank) {
    Peer &peer = own->peers[rank];
    if (static_cast<int>(rank) == own->rank || own->aborted)
      continue;
    for (const auto &[channel, stream] : peer.receives)
      peer.sends.try_emplace(channel); // one notice for both directions
    for (const auto &[channel, stream] : peer.sends) {
      Notice end;
      end.kind = Notice::kEnd;
      end.channel = channel;
      end.sent = stream.posted;
      if (auto received = peer.receives.find(channel); received != peer.receives.end())
        end.received = received->second.done;
      own->send_notice(static_cast<int>(rank), end);
    }
    Notice gone;
    gone.kind = Notice::kGone;
    own->send_notice(static_cast<int>(rank), gone);
  }
  mpi.Cancel(&own->notice_request);
  Leaving::all().add(std::move(own));
  Leaving::all().sweep();
}

const char *const kRegistered = [] {
  weft_collective_layer layer = {};
  layer.struct_size = sizeof layer;
  layer.version = WEFT_COLLECTIVE_ABI_VERSION;
  layer.name = "mpi";
  layer.connect = connect;
  layer.post = post;
  layer.wait = wait;
  layer.abort = abort;
  layer.close = close;
  layer.meet = meet;
  return weft_register_collective_layer(&layer);
}();

} // namespace
} // namespace weft::runtime
