// Sockets and frames of the store over TCP. Private.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/collective/store.h"

namespace weft::runtime {

class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();
  int get() const {
    return descriptor_;
  }
  explicit operator bool() const {
    return descriptor_ >= 0;
  }

private:
  int descriptor_ = -1;
};

// All are non-blocking.
// Listens at `port`, or at any for 0; only for this machine where `local`. The port is set.
absl::StatusOr<Socket> listen_at(int &port, bool local);
// Finds out what a name stands for, and ends at the deadline, which the system's own search for
// names does not have; then tries once to connect, for no longer than `patience`.
absl::StatusOr<Socket> connect_to(const std::string &address, int port, Deadline deadline,
                                  std::chrono::milliseconds patience);
// Of this end, and of the other one; numeric.
std::string own_address(const Socket &socket);
std::string peer_address(const Socket &socket);
bool is_loopback(const std::string &address);
// Of a numeric address, which is IPv4's or IPv6's.
bool is_ipv6(const std::string &address);
// This machine's by which it sends to that numeric address; empty where it has no way there. Asks
// the system alone: whether anybody answers is not known.
std::string address_towards(const std::string &address);
// Under which this machine may be reached: those of its networks, IPv4's first, then its name.
std::vector<std::string> machine_addresses();

// Waits until the socket can be read or written; false where the deadline comes first.
bool wait_for(const Socket &socket, short events, Deadline deadline);

// What travels: a kind, a name and a value.
struct Frame {
  enum Kind : uint8_t {
    kHello,   // server: a magic word, so that both know whom they talk to
    kJoin,    // client: name = job, value = rank and size
    kAccept,  // server: all have joined; value = session, name = an address of rank 0's machine
              // under which ranks have reached it, those of other machines if there are any: ranks
              // connect with each other in its family
    kRefuse,  // server: value = why
    kSet,     // client
    kGet,     // client; answered by kValue when there is one
    kValue,   // server
    kFail,    // client: value = failure
    kFailure, // server: value = the job's failure
    kLeave,   // client, or server: ends in order
  };
  Kind kind;
  std::string name, value;
};
inline constexpr char kHelloText[] = "weft-store-1";

std::string encode(const Frame &frame);
// Takes the first frame off `bytes`. 1 if there was one, 0 if it has not come in full, -1 for what
// is no frame.
int decode(std::string &bytes, Frame &frame);
// Reads what is there: 1, 0 for nothing now, -1 for the end.
int read_some(const Socket &socket, std::string &bytes);
// Writes what can be written, and takes it off: false for the end.
bool write_some(const Socket &socket, std::string &bytes);

} // namespace weft::runtime
