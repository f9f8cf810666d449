#include "runtime/collective/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "runtime/collective/link.h"

namespace weft::runtime {
namespace {

// Addresses, refusals and errors as text: nothing that travels is larger.
constexpr uint32_t kMaxPart = 1 << 20;

absl::Status failed(const char *what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void configure(int descriptor) {
  int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int milliseconds_to(Deadline deadline) {
  auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

// A search for a name. Its thread owns it, too, and may go on after the deadline.
struct Lookup {
  std::string address, port;
  bool is_numeric = false;
  std::mutex mutex; // of all below
  std::condition_variable changed;
  bool done = false;
  int error = 0;
  addrinfo *list = nullptr;

  ~Lookup() {
    if (list)
      freeaddrinfo(list);
  }
  void run() {
    addrinfo hints = {}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = is_numeric ? AI_NUMERICHOST : 0;
    int result = getaddrinfo(address.c_str(), port.c_str(), &hints, &found);
    std::lock_guard lock(mutex);
    error = result;
    list = result ? nullptr : found;
    done = true;
    changed.notify_all();
  }
};

// Null where the deadline comes first.
std::shared_ptr<Lookup> look_up(const std::string &address, int port, Deadline deadline) {
  auto lookup = std::make_shared<Lookup>();
  lookup->address = address;
  lookup->port = std::to_string(port);
  lookup->is_numeric = true;
  lookup->run(); // asks nobody
  if (lookup->error != EAI_NONAME)
    return lookup;
  lookup->is_numeric = lookup->done = false;
  auto shared = std::make_unique<std::shared_ptr<Lookup>>(lookup);
  start_thread(
      [](void *data) {
        std::unique_ptr<std::shared_ptr<Lookup>> own(static_cast<std::shared_ptr<Lookup> *>(data));
        (*own)->run();
      },
      shared.get())
      .detach();
  (void)shared.release(); // the thread's
  std::unique_lock lock(lookup->mutex);
  return lookup->changed.wait_until(lock, deadline, [&] { return lookup->done; }) ? lookup
                                                                                  : nullptr;
}

// Numeric, and IPv4 as such where it came through a socket of IPv6; empty if it has no such form.
std::string text_of(const sockaddr *address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  if (getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return std::strncmp(text, "::ffff:", 7) == 0 ? text + 7 : text;
}

using NameOf = int (*)(int, sockaddr *, socklen_t *);
std::string address_of(const Socket &socket, NameOf name_of) {
  sockaddr_storage storage = {};
  socklen_t length = sizeof storage;
  auto *address = reinterpret_cast<sockaddr *>(&storage);
  std::string text = name_of(socket.get(), address, &length) == 0 ? text_of(address, length) : "";
  return text.empty() ? "127.0.0.1" : text;
}

} // namespace

Socket::~Socket() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

absl::StatusOr<Socket> listen_at(int &port, bool local) {
  int flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, on = 1, off = 0;
  sockaddr_storage storage = {};
  socklen_t length = 0;
  // IPv6 takes IPv4 as well; a machine may have none.
  Socket socket(local ? -1 : ::socket(AF_INET6, flags, 0));
  if (socket) {
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto *address = reinterpret_cast<sockaddr_in6 *>(&storage);
    *address = {};
    address->sin6_family = AF_INET6;
    address->sin6_addr = in6addr_any;
    address->sin6_port = htons(static_cast<uint16_t>(port));
    length = sizeof *address;
  } else {
    socket = Socket(::socket(AF_INET, flags, 0));
    if (!socket)
      return failed("no socket");
    auto *address = reinterpret_cast<sockaddr_in *>(&storage);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY);
    address->sin_port = htons(static_cast<uint16_t>(port));
    length = sizeof *address;
  }
  // A port whose last connections have ended is free.
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.get(), reinterpret_cast<sockaddr *>(&storage), length) != 0 ||
      listen(socket.get(), 4096) != 0)
    return failed(absl::StrCat("cannot listen at port ", port).c_str());
  if (getsockname(socket.get(), reinterpret_cast<sockaddr *>(&storage), &length) != 0)
    return failed("the socket has no name");
  port = ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&storage)->sin6_port
                                             : reinterpret_cast<sockaddr_in *>(&storage)->sin_port);
  return socket;
}

absl::StatusOr<Socket> connect_to(const std::string &address, int port, Deadline deadline,
                                  std::chrono::milliseconds patience) {
  std::shared_ptr<Lookup> lookup = look_up(address, port, deadline);
  if (!lookup)
    return absl::UnavailableError(
        absl::StrCat("the name '", address, "' is not known in time: a name server is silent"));
  if (lookup->error)
    return absl::UnavailableError(
        absl::StrCat("the name '", address, "' is not known: ", gai_strerror(lookup->error)));
  deadline = std::min(deadline, std::chrono::steady_clock::now() + patience);
  absl::Status status = absl::UnavailableError("no address");
  Socket connected;
  for (addrinfo *one = lookup->list; one && !connected; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
      status = failed("no socket");
      continue;
    }
    int error = 0;
    socklen_t length = sizeof error;
    if (connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        if (!wait_for(socket, POLLOUT, deadline))
          error = ETIMEDOUT;
        else
          getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
    }
    if (error) {
      status = absl::UnavailableError(std::strerror(error));
      continue;
    }
    // To a port where nobody listens a socket can connect with itself: the system may have given it
    // that port for its own.
    sockaddr_storage own = {}, peer = {};
    socklen_t own_length = sizeof own, peer_length = sizeof peer;
    getsockname(socket.get(), reinterpret_cast<sockaddr *>(&own), &own_length);
    getpeername(socket.get(), reinterpret_cast<sockaddr *>(&peer), &peer_length);
    if (own_length == peer_length && std::memcmp(&own, &peer, own_length) == 0) {
      status = absl::UnavailableError("nobody listens");
      continue;
    }
    configure(socket.get());
    connected = std::move(socket);
  }
  if (!connected)
    return status;
  return connected;
}

std::string own_address(const Socket &socket) {
  return address_of(socket, getsockname);
}

std::string peer_address(const Socket &socket) {
  return address_of(socket, getpeername);
}

bool is_loopback(const std::string &address) {
  return address.starts_with("127.") || address == "::1";
}

bool is_ipv6(const std::string &address) {
  return address.find(':') != address.npos;
}

std::string address_towards(const std::string &address) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM; // whose connect() sends nothing
  hints.ai_flags = AI_NUMERICHOST;
  if (getaddrinfo(address.c_str(), "9", &hints, &found) != 0)
    return "";
  Socket socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  bool has_way = socket && connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  return has_way ? own_address(socket) : "";
}

std::vector<std::string> machine_addresses() {
  std::vector<std::string> result;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    list = nullptr;
  for (ifaddrs *one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP))
      continue;
    int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6)
      continue;
    std::string text =
        text_of(one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    // Those with a percent sign mean something on this machine alone.
    if (!text.empty() && !is_loopback(text) && text.find('%') == text.npos)
      result.push_back(text);
  }
  if (list)
    freeifaddrs(list);
  std::stable_partition(result.begin(), result.end(),
                        [](const std::string &address) { return !is_ipv6(address); });
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) == 0 && *host)
    result.push_back(host);
  return result;
}

bool wait_for(const Socket &socket, short events, Deadline deadline) {
  for (;;) {
    pollfd one = {socket.get(), events, 0};
    int ready = poll(&one, 1, milliseconds_to(deadline));
    if (ready > 0)
      return true;
    if (ready == 0 && std::chrono::steady_clock::now() >= deadline)
      return false;
    if (ready < 0 && errno != EINTR)
      return false;
  }
}

std::string encode(const Frame &frame) {
  uint32_t sizes[2] = {static_cast<uint32_t>(frame.name.size()),
                       static_cast<uint32_t>(frame.value.size())};
  std::string bytes(1, static_cast<char>(frame.kind));
  bytes.append(reinterpret_cast<const char *>(sizes), sizeof sizes);
  return bytes + frame.name + frame.value;
}

int decode(std::string &bytes, Frame &frame) {
  uint32_t sizes[2];
  if (bytes.empty())
    return 0;
  if (static_cast<uint8_t>(bytes[0]) > Frame::kLeave)
    return -1;
  if (bytes.size() < 1 + sizeof sizes)
    return 0;
  std::memcpy(sizes, bytes.data() + 1, sizeof sizes);
  if (sizes[0] > kMaxPart || sizes[1] > kMaxPart)
    return -1;
  size_t head = 1 + sizeof sizes;
  if (bytes.size() < head + sizes[0] + sizes[1])
    return 0;
  frame = {static_cast<Frame::Kind>(bytes[0]), bytes.substr(head, sizes[0]),
           bytes.substr(head + sizes[0], sizes[1])};
  bytes.erase(0, head + sizes[0] + sizes[1]);
  return 1;
}

int read_some(const Socket &socket, std::string &bytes) {
  char buffer[4096];
  for (;;) {
    ssize_t got = recv(socket.get(), buffer, sizeof buffer, 0);
    if (got > 0)
      bytes.append(buffer, static_cast<size_t>(got));
    if (got > 0)
      return 1;
    if (got < 0 && errno == EINTR)
      continue;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
  }
}

bool write_some(const Socket &socket, std::string &bytes) {
  while (!bytes.empty()) {
    ssize_t put = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK;
    bytes.erase(0, static_cast<size_t>(put));
  }
  return true;
}

} // namespace weft::runtime
