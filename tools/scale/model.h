// What a step costs on other numbers of ranks: time and memory from the parts of its plan.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::scale {

// A message of b bytes takes seconds_per_message + b * seconds_per_byte, and a rank sends one at a
// time: the alpha-beta model (Hockney 1994).
struct Network {
  double seconds_per_message = 0; // alpha
  double seconds_per_byte = 0;    // beta
};

// kDirect is what Weft's messages do (runtime/collective/algorithms.cpp): each rank sends each
// other one its part, n - 1 messages, after n - 1 first messages of kFirstBytes in which the ranks
// compare the call and which carry all of a small one. kRing is what libraries of devices do with
// large data (NCCL): n - 1 rounds of a message to the neighbour.
enum class Algorithm { kDirect, kRing };
inline constexpr double kFirstBytes = 4096, kInlineBytes = 3848; // Group::kMessageBytes, its room

enum class Collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kSendReceive
};
// Of a name as explain has it, "weft.all_reduce"; false for others.
bool find_collective(const std::string &op, Collective &kind);

// The time of a call whose operand has so many bytes on each rank. The rings are those of Thakur,
// Rabenseifner and Gropp (2005), without the sums: with n ranks, S bytes,
//   reduce_scatter, and all_gather of S in all: (n - 1) (alpha + S / n beta)
//   all_reduce: both, which no algorithm sends less than (Patarasuk and Yuan 2009)
double seconds_of(Collective kind, double bytes, int ranks, Network network, Algorithm algorithm);

// An exchange whose results a part takes, of this step or of one before it.
struct Need {
  size_t part = 0;
  size_t steps_ago = 0;
};

// A program or an exchange of a step. They begin in the order of the step: programs one after the
// other on the device, exchanges on the group's thread. An exchange takes what the last program
// before it has made.
struct Part {
  bool is_exchange = false;
  Collective kind = Collective::kAllReduce;
  double bytes = 0;        // of an exchange's operand
  double seconds = 0;      // of a program; of an exchange, what was measured
  double peak_bytes = 0;   // of a program: what its run takes
  std::vector<Need> needs; // those of programs
  bool of_gradients = false;
};

// The exchanges of gradients in pieces of at least so many bytes, or, where one is larger, in equal
// parts of at most that: what another bucket_bytes would make of the step.
std::vector<Part> with_buckets(std::vector<Part> step, double bytes);

struct Timeline {
  double seconds = 0;  // a step
  double exposed = 0;  // of it, the device waits for exchanges
  double exchange = 0; // the exchanges' own time, hidden or not
  double computed = 0;
};

struct Cluster {
  int ranks = 1;
  Network network;
  Algorithm algorithm = Algorithm::kDirect;
  double slowdown = 1;     // of programs, beside the ranks that were measured
  double host_seconds = 0; // of a step: what no part is in (recording, starting)
};
// Of a step among many: each part begins when what it takes is there and the parts before it of its
// kind have ended. That is how the executors run them, so it is no estimate but follows from the
// parts' times.
Timeline timeline_of(const std::vector<Part> &step, const Cluster &cluster);

// Bytes of a rank, beside what a program takes; docs/distributed.md, "Trainings", has the same as a
// table.
enum class Form { kReplicated, kShardedOptimizer, kShardedParameters };
struct Model {
  double parameter_bytes = 0;
  double moments = 2;             // for each parameter: AdamW's
  double largest_layer_bytes = 0; // parameters of a layer that are gathered at a time
};
struct Memory {
  double parameters = 0, moments = 0; // always
  double gradients = 0, gathered = 0; // at most, in a step
  double held() const {
    return parameters + moments;
  }
  double most() const {
    return held() + gradients + gathered;
  }
};
Memory memory_of(const Model &model, Form form, int ranks);

// alpha and beta of all_reduces that were timed, by least squares of the relative errors: small
// calls count as much as large ones.
struct Sample {
  double bytes, seconds;
};
Network fit(const std::vector<Sample> &samples, int ranks);

} // namespace weft::scale
