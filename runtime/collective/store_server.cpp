#include "runtime/collective/store_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/collective/link.h"

namespace weft::runtime {
namespace {

// How long the end waits for ranks to take what they were sent.
constexpr std::chrono::milliseconds kLinger{500};
// How long nobody is accepted where the process has no descriptor left: poll() would say at once,
// again and again, that somebody comes.
constexpr std::chrono::milliseconds kRest{100};

std::string new_session() {
  std::random_device random;
  char text[32];
  std::snprintf(text, sizeof text, "%08x%08x", random(), random());
  return text;
}

} // namespace

struct StoreServer::Connection {
  Socket socket;
  std::string in, out;
  std::vector<std::string> waits_for; // names that it asked for and nobody has set
  int rank = -1;
  bool has_left = false;
  bool ends = false; // closed when `out` has gone
};

StoreServer::StoreServer(const World &world, Deadline deadline)
    : world_(world), deadline_(deadline) {}

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::start(World &world, Deadline deadline) {
  std::unique_ptr<StoreServer> server(new StoreServer(world, deadline));
  int port = world.port;
  bool local = world.local_size == world.size || world.address == "127.0.0.1" ||
               world.address == "localhost";
  absl::StatusOr<Socket> listener = listen_at(port, local);
  if (!listener.ok())
    return absl::UnavailableError(
        absl::StrCat("rank 0 ", listener.status().message(),
                     ". Another job may use that port: give this one another MASTER_PORT"));
  server->listener_ = *std::move(listener);
  server->world_.port = world.port = port;
  server->session_ = new_session();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::UnavailableError(absl::StrCat("no pipe: ", std::strerror(errno)));
  server->wakened_ = Socket(ends[0]);
  server->wake_ = Socket(ends[1]);
  server->thread_ =
      start_thread([](void *raw) { static_cast<StoreServer *>(raw)->loop(); }, server.get());
  return server;
}

StoreServer::~StoreServer() {
  // A child that was forked may hold this end too: that it is closed would not be seen.
  [[maybe_unused]] ssize_t written = write(wake_.get(), "", 1);
  if (thread_.joinable())
    thread_.join();
}

void StoreServer::loop() {
  using std::chrono::steady_clock;
  Deadline end = Deadline::max(), accepts = Deadline::min();
  std::vector<pollfd> polled;
  for (;;) {
    Deadline now = steady_clock::now();
    if (!accepted_ && failure_.empty() && now >= deadline_)
      stop_waiting_for_ranks();
    bool ending = end != Deadline::max();
    bool unsent = std::any_of(connections_.begin(), connections_.end(),
                              [](const auto &one) { return one->socket && !one->out.empty(); });
    bool listens = !ending || (must_tell_ranks() && now < deadline_);
    if (!listens && (now >= end || !unsent))
      return;
    polled.clear();
    polled.push_back({ending ? -1 : wakened_.get(), POLLIN, 0});
    polled.push_back({listens && now >= accepts ? listener_.get() : -1, POLLIN, 0});
    for (const auto &one : connections_)
      polled.push_back(
          {one->socket.get(), static_cast<short>(POLLIN | (one->out.empty() ? 0 : POLLOUT)), 0});
    Deadline until = ending && !listens                           ? end
                     : ending || (!accepted_ && failure_.empty()) ? deadline_
                                                                  : Deadline::max();
    if (listens && now < accepts)
      until = std::min(until, accepts);
    int timeout = -1;
    if (until != Deadline::max())
      timeout = static_cast<int>(std::clamp<int64_t>(
          std::chrono::ceil<std::chrono::milliseconds>(until - now).count(), 0, 1 << 30));
    if (poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR)
      return;
    for (size_t i = 0; i < connections_.size() && i + 2 < polled.size(); ++i) {
      Connection &one = *connections_[i];
      if (!one.socket || !polled[i + 2].revents)
        continue;
      if (polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR))
        receive(one);
      if (one.socket && !write_some(one.socket, one.out))
        ended(one);
      if (one.socket && one.ends && one.out.empty())
        one.socket = Socket();
    }
    std::erase_if(connections_, [](const auto &one) { return !one->socket && one->rank < 0; });
    if (!ending && polled[0].revents) {
      end = std::max(steady_clock::now() + kLinger, must_tell_ranks() ? deadline_ + kLinger : now);
      for (const auto &one : connections_)
        if (one->socket && one->rank >= 0)
          send(*one, {Frame::kLeave, "", ""});
    } else if (polled[1].revents & POLLIN) {
      if (int accepted = accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
          accepted >= 0) {
        connections_.push_back(std::make_unique<Connection>());
        connections_.back()->socket = Socket(accepted);
        send(*connections_.back(), {Frame::kHello, "", kHelloText});
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        accepts = steady_clock::now() + kRest;
      }
    }
  }
}

void StoreServer::receive(Connection &from) {
  int got = read_some(from.socket, from.in);
  Frame frame;
  int decoded = 0;
  while (from.socket && (decoded = decode(from.in, frame)) > 0)
    handle(from, frame);
  if (got < 0 || decoded < 0)
    ended(from);
}

void StoreServer::handle(Connection &from, const Frame &frame) {
  if (frame.kind == Frame::kJoin && from.rank < 0)
    return join(from, frame);
  if (from.rank < 0)
    return ended(from); // a stranger
  switch (frame.kind) {
  case Frame::kSet:
    values_[frame.name] = frame.value;
    for (const auto &one : connections_)
      if (std::erase(one->waits_for, frame.name))
        send(*one, {Frame::kValue, frame.name, frame.value});
    break;
  case Frame::kGet:
    if (auto it = values_.find(frame.name); it != values_.end())
      send(from, {Frame::kValue, frame.name, it->second});
    else
      from.waits_for.push_back(frame.name);
    break;
  case Frame::kFail:
    fail(frame.value);
    break;
  case Frame::kLeave:
    from.has_left = true;
    break;
  default:
    ended(from);
  }
}

void StoreServer::join(Connection &from, const Frame &frame) {
  int rank = -1, size = -1;
  if (std::sscanf(frame.value.c_str(), "%d %d", &rank, &size) != 2 || rank < 0)
    return ended(from);
  if (frame.name != world_.job)
    return refuse(from, absl::StrCat("rank ", rank, " of job '", frame.name, "' came to port ",
                                     world_.port, ", where rank 0 of job '", world_.job,
                                     "' listens: give each job a MASTER_PORT of its own"));
  if (size != world_.size) {
    std::string why =
        absl::StrCat("rank ", rank, " was started as one of ", size, " ranks, rank 0 as one of ",
                     world_.size, ": start all ranks with the same number of ranks (WORLD_SIZE)");
    refuse(from, why);
    if (accepted_)
      return; // all ranks are there: it is another job's
    told_.insert(rank);
    return fail(encode_failure(absl::InvalidArgumentError(why)));
  }
  if (!failure_.empty()) {
    told_.insert(rank);
    return send(from, {Frame::kFailure, "", failure_});
  }
  if (rank >= size || ranks_.contains(rank))
    return refuse(from, absl::StrCat("rank ", rank, " of ", size, " came to port ", world_.port,
                                     ", and such a rank is there already: two processes have "
                                     "that rank, or two jobs the same MASTER_PORT"));
  from.rank = rank;
  ranks_[rank] = &from;
  if (ranks_.size() < static_cast<size_t>(world_.size))
    return;
  accepted_ = true;
  std::string address = meeting_address();
  for (const auto &[one, connection] : ranks_)
    send(*connection, {Frame::kAccept, address, session_});
}

// Ranks beside rank 0 may have come by a name that stands for the loopback here, and by any of its
// addresses. Those of other machines decide, IPv6's first: who came so was out of reach otherwise,
// since a machine names its addresses of IPv4 first.
std::string StoreServer::meeting_address() const {
  std::string loopback, own, others;
  for (const auto &[rank, connection] : ranks_) {
    std::string reached = own_address(connection->socket);
    if (reached.find('%') != reached.npos)
      continue; // it means something on one machine alone
    bool is_own = reached == peer_address(connection->socket);
    std::string &first = is_loopback(reached) ? loopback : is_own ? own : others;
    if (first.empty() || (!is_own && is_ipv6(reached) && !is_ipv6(first)))
      first = reached;
  }
  return !others.empty() ? others : !own.empty() ? own : loopback;
}

void StoreServer::send(Connection &to, const Frame &frame) {
  to.out += encode(frame);
  // At once, as much as goes; the rest when poll() says so. The end of the connection, too, is
  // seen there.
  if (to.socket)
    write_some(to.socket, to.out);
}

void StoreServer::refuse(Connection &to, const std::string &why) {
  send(to, {Frame::kRefuse, "", why});
  to.ends = true;
}

void StoreServer::fail(const std::string &failure) {
  if (!failure_.empty())
    return;
  failure_ = failure;
  for (const auto &one : connections_)
    if (one->rank >= 0)
      send(*one, {Frame::kFailure, "", failure_});
}

void StoreServer::ended(Connection &connection) {
  connection.socket = Socket();
  int rank = connection.rank;
  if (rank < 0 || connection.has_left)
    return;
  fail(encode_failure(rank_gone(rank)));
}

bool StoreServer::is_awaited(int rank) const {
  return !ranks_.contains(rank) && !told_.contains(rank);
}

bool StoreServer::must_tell_ranks() const {
  if (accepted_ || failure_.empty())
    return false;
  for (int rank = 0; rank < world_.size; ++rank)
    if (is_awaited(rank))
      return true;
  return false;
}

void StoreServer::stop_waiting_for_ranks() {
  std::string missing;
  int count = 0;
  for (int rank = 0; rank < world_.size; ++rank)
    if (is_awaited(rank) && ++count <= 8)
      absl::StrAppend(&missing, missing.empty() ? "" : ", ", rank);
  if (count > 8)
    absl::StrAppend(&missing, " and ", count - 8, " more");
  fail(encode_failure(absl::DeadlineExceededError(absl::StrCat(
      count == 1 ? "rank " : "ranks ", missing, " of ", world_.size, " did not come within ",
      world_.meeting_seconds(), " s. See whether ", count == 1 ? "it was" : "they were",
      " started and can reach rank 0; if ", count == 1 ? "it is" : "they are",
      " only late, raise the timeout (WEFT_RENDEZVOUS_TIMEOUT, in seconds)"))));
}

} // namespace weft::runtime
