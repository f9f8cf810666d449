// A collective layer of one's own: ranks of one machine, over Unix sockets. Of Weft it needs the
// header alone. Two ranks share one stream of messages, each with its channel and its size in
// front. Whoever waits moves all messages of this rank on.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/abi/weft_collective.h"

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Head {
  uint64_t channel;
  int64_t bytes;
};
constexpr int64_t kHead = sizeof(Head);

struct Transfer { // what post() makes, and wait() takes back
  weft_collective_transfer *given;
  bool is_done = false, has_failed = false;
};

struct Peer {
  int socket = -1; // -1: it has gone
  std::deque<Transfer *> sends, receives;
  int64_t sent = 0; // of the first send, its head included
  Head head = {};   // of the message that comes
  int64_t received = 0;
  Transfer *to = nullptr; // where it goes; null where nobody has posted for it yet:
  std::vector<char> early;
  std::map<uint64_t, std::deque<std::vector<char>>> stashed; // such messages, by channel
};

struct Connection {
  std::mutex mutex; // of all below
  bool aborted = false;
  std::vector<Peer> peers;
  std::map<Transfer *, std::unique_ptr<Transfer>> transfers;

  ~Connection() {
    for (Peer &peer : peers)
      if (peer.socket >= 0)
        close(peer.socket);
  }
};

// The other end has gone, or this one is given up: nothing of it is read or written any more.
void give_up(Peer &peer) {
  if (peer.socket >= 0)
    close(peer.socket);
  peer.socket = -1;
  if (peer.to)
    peer.receives.push_back(peer.to);
  for (auto *list : {&peer.sends, &peer.receives}) {
    for (Transfer *one : *list)
      one->has_failed = true;
    list->clear();
  }
  peer.to = nullptr;
}

// Whether a call of send() or recv() has moved something; else the socket waits, or has ended.
bool moved(Peer &peer, ssize_t bytes) {
  if (bytes > 0)
    return true;
  if (bytes == 0 || (errno != EAGAIN && errno != EINTR))
    give_up(peer);
  return false;
}

void write_more(Peer &peer) {
  while (peer.socket >= 0 && !peer.sends.empty()) {
    Transfer *one = peer.sends.front();
    const Head head = {one->given->channel, one->given->bytes};
    bool in_head = peer.sent < kHead;
    const char *from = in_head ? reinterpret_cast<const char *>(&head) + peer.sent
                               : static_cast<const char *>(one->given->data) + peer.sent - kHead;
    int64_t left = (in_head ? kHead : kHead + head.bytes) - peer.sent;
    ssize_t put = send(peer.socket, from, static_cast<size_t>(left), MSG_NOSIGNAL);
    if (!moved(peer, put))
      return;
    peer.sent += put;
    if (peer.sent < kHead + head.bytes)
      continue;
    one->is_done = true;
    peer.sends.pop_front();
    peer.sent = 0;
  }
}

// Finds where a message goes whose head has come.
void place(Peer &peer) {
  for (auto it = peer.receives.begin(); it != peer.receives.end() && !peer.to; ++it)
    if ((*it)->given->channel == peer.head.channel) {
      peer.to = *it;
      peer.receives.erase(it);
      break;
    }
  if (!peer.to)
    peer.early.resize(static_cast<size_t>(peer.head.bytes));
  else if (peer.to->given->bytes != peer.head.bytes)
    give_up(peer); // another size than was posted
}

void read_more(Peer &peer) {
  while (peer.socket >= 0) {
    bool in_head = peer.received < kHead;
    char *data = peer.to ? static_cast<char *>(peer.to->given->data) : peer.early.data();
    char *to = in_head ? reinterpret_cast<char *>(&peer.head) + peer.received
                       : data + peer.received - kHead;
    int64_t left = (in_head ? kHead : kHead + peer.head.bytes) - peer.received;
    ssize_t got = recv(peer.socket, to, static_cast<size_t>(left), 0);
    if (!moved(peer, got))
      return;
    peer.received += got;
    if (in_head && peer.received == kHead)
      place(peer);
    if (peer.received < kHead + peer.head.bytes)
      continue;
    if (peer.to)
      peer.to->is_done = true;
    else
      peer.stashed[peer.head.channel].push_back(std::move(peer.early));
    peer.to = nullptr;
    peer.early.clear();
    peer.received = 0;
  }
}

// Of Linux's abstract names, which leave no files.
socklen_t name_socket(sockaddr_un &address, const char *session, int rank) {
  address = {};
  address.sun_family = AF_UNIX;
  int length =
      std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "weft-%s-%d", session, rank);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

// Each rank listens, and connects to those below it, which it tells who it is.
const char *connect_ranks(const weft_collective_world *world, void **connection) {
  auto own = std::make_unique<Connection>();
  own->peers.resize(static_cast<size_t>(world->size));
  const auto end = steady_clock::now() + milliseconds(world->timeout_ms);
  sockaddr_un address;
  socklen_t length = name_socket(address, world->session, world->rank);
  Peer listener; // its socket is closed with it
  struct Closer {
    Peer &peer;
    ~Closer() {
      give_up(peer);
    }
  } closer{listener};
  listener.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener.socket, reinterpret_cast<sockaddr *>(&address), length) != 0 ||
      listen(listener.socket, world->size) != 0)
    return "it cannot listen at a Unix socket";
  for (int32_t rank = 0; rank < world->rank; ++rank) {
    int other = own->peers[rank].socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    length = name_socket(address, world->session, rank);
    while (connect(other, reinterpret_cast<sockaddr *>(&address), length) != 0) {
      if (steady_clock::now() > end)
        return "a rank does not listen: are all on one machine?";
      std::this_thread::sleep_for(milliseconds(5));
    }
    if (send(other, &world->rank, sizeof world->rank, MSG_NOSIGNAL) != sizeof world->rank)
      return "a rank has gone";
  }
  for (int32_t missing = world->size - 1 - world->rank; missing > 0; --missing) {
    pollfd one = {listener.socket, POLLIN, 0};
    auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now()).count();
    if (left <= 0 || poll(&one, 1, static_cast<int>(left)) <= 0)
      return "a rank does not connect: are all on one machine?";
    int32_t rank = -1;
    int other = accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC);
    timeval time = {left / 1000, left % 1000 * 1000};
    setsockopt(other, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time); // a stranger may say nothing
    if (recv(other, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank <= world->rank ||
        rank >= world->size || own->peers[rank].socket >= 0) {
      close(other);
      return "a stranger has connected";
    }
    own->peers[rank].socket = other;
  }
  for (Peer &peer : own->peers)
    if (peer.socket >= 0)
      fcntl(peer.socket, F_SETFL, O_NONBLOCK);
  *connection = own.release();
  return nullptr;
}

const char *post(void *connection, weft_collective_transfer *given) {
  auto &own = *static_cast<Connection *>(connection);
  std::lock_guard lock(own.mutex);
  Peer &peer = own.peers[given->peer];
  auto one = std::make_unique<Transfer>(Transfer{given});
  auto early = peer.stashed.find(given->channel);
  bool is_there = !given->is_send && early != peer.stashed.end();
  if (own.aborted || (!is_there && peer.socket < 0))
    return "its socket is closed";
  if (is_there && early->second.front().size() != static_cast<size_t>(given->bytes))
    return "a message has another size there";
  if (is_there) {
    std::memcpy(given->data, early->second.front().data(), early->second.front().size());
    early->second.pop_front();
    if (early->second.empty())
      peer.stashed.erase(early);
    one->is_done = true;
  } else if (!given->is_send && !peer.to && peer.received >= kHead &&
             peer.head.channel == given->channel) { // half of it is there
    if (peer.head.bytes != given->bytes)
      return "a message has another size there";
    std::memcpy(given->data, peer.early.data(), static_cast<size_t>(peer.received - kHead));
    peer.to = one.get();
  } else {
    (given->is_send ? peer.sends : peer.receives).push_back(one.get());
  }
  given->layer = one.get();
  own.transfers[one.get()] = std::move(one);
  write_more(peer);
  return nullptr;
}

int32_t wait_for(void *connection, weft_collective_transfer *given, int64_t timeout_ms,
                 const char **why) {
  auto &own = *static_cast<Connection *>(connection);
  auto *one = static_cast<Transfer *>(given->layer);
  const auto end = steady_clock::now() + milliseconds(timeout_ms);
  std::vector<pollfd> polled(own.peers.size());
  std::unique_lock lock(own.mutex);
  for (;;) {
    for (size_t rank = 0; rank < own.peers.size(); ++rank) {
      write_more(own.peers[rank]);
      read_more(own.peers[rank]);
      polled[rank] = {own.peers[rank].socket, POLLIN, 0};
      if (!own.peers[rank].sends.empty())
        polled[rank].events |= POLLOUT;
    }
    if (one->is_done) {
      own.transfers.erase(one);
      return WEFT_TRANSFER_DONE;
    }
    if (one->has_failed) {
      *why = "its socket is closed";
      return WEFT_TRANSFER_FAILED;
    }
    if (steady_clock::now() >= end)
      return WEFT_TRANSFER_LATE;
    // Another thread may move this transfer on meanwhile: not for long.
    lock.unlock();
    poll(polled.data(), polled.size(), 2);
    lock.lock();
  }
}

void abort_all(void *connection) {
  auto &own = *static_cast<Connection *>(connection);
  std::lock_guard lock(own.mutex);
  own.aborted = true;
  for (Peer &peer : own.peers)
    give_up(peer);
}

void close_connection(void *connection) {
  delete static_cast<Connection *>(connection);
}

} // namespace

extern "C" const char *
weft_collective_plugin(weft_register_collective_layer_function register_layer) {
  weft_collective_layer layer = {}; // what a later version appends is not there
  layer.struct_size = sizeof layer;
  layer.version = WEFT_COLLECTIVE_ABI_VERSION;
  layer.name = "socket";
  layer.connect = connect_ranks;
  layer.post = post;
  layer.wait = wait_for;
  layer.abort = abort_all;
  layer.close = close_connection;
  return register_layer(&layer);
}
