// Rank 0's half of the store over TCP. Private.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/collective/tcp.h"
#include "runtime/collective/world.h"

namespace weft::runtime {

// A thread of its own, which waits for nobody: names and values are kept until it ends, and what it
// sends to a rank that does not read waits in memory. It accepts the ranks when all have joined;
// the first failure that it is told, or sees (a connection that ends before the rank has left),
// goes to all. If that is before all have joined, it stays until the others have come and heard it,
// or are late.
class StoreServer {
public:
  // Listens as `world` says, and sets world.port where it is 0.
  static absl::StatusOr<std::unique_ptr<StoreServer>> start(World &world, Deadline deadline);
  // Ends after what was sent to ranks has gone, or a moment later.
  ~StoreServer();

private:
  struct Connection;

  StoreServer(const World &world, Deadline deadline);
  void loop();
  void receive(Connection &from);
  void handle(Connection &from, const Frame &frame);
  void join(Connection &from, const Frame &frame);
  void send(Connection &to, const Frame &frame);
  void refuse(Connection &to, const std::string &why);
  void fail(const std::string &failure);
  void ended(Connection &connection);
  void stop_waiting_for_ranks();
  bool is_awaited(int rank) const;
  bool must_tell_ranks() const;
  std::string meeting_address() const;

  World world_;
  Deadline deadline_; // for all ranks to join
  std::string session_, failure_;
  Socket listener_, wake_, wakened_; // wake_ is closed to end the thread
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<int, Connection *> ranks_; // those that have joined
  std::map<std::string, std::string> values_;
  std::set<int> told_; // ranks that came, and heard that they cannot join
  bool accepted_ = false;
  std::thread thread_;
};

} // namespace weft::runtime
