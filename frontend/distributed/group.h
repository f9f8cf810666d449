// Ranks of a job: processes (or threads, for tests) that run one program and exchange tensors.
// docs/collectives.md tells more.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "weft/device.h"
#include "weft/error.h"

namespace weft::distributed {

struct GroupState;

// Some ranks of a job that call collectives together, all of them the same ones in the same order.
// A handle; copies are the same group, which lives as long as its job.
class Group {
public:
  // Of no ranks.
  Group() = default;
  explicit Group(std::shared_ptr<GroupState> state) : state_(std::move(state)) {}

  // False for what split() gives a rank of a negative color.
  bool defined() const {
    return state_ != nullptr;
  }
  // This rank's number in the group, from 0. Error kState: undefined.
  int rank(Location location = Location::current()) const;
  // How many ranks there are. Error kState: undefined.
  int size(Location location = Location::current()) const;
  // "world", "world/row", ...: the same on all ranks.
  std::string name(Location location = Location::current()) const;
  // Ranks that give the same color become a group, ordered by key and then by rank. All ranks of
  // this group call it with the same name, and wait for each other. Errors: kRun, a rank is gone,
  // late, or calls something else; kState, inside a function that weft::jit or weft::trace records,
  // or where this rank has 256 groups, which live as long as its job: then the job ends.
  Group split(int64_t color, int64_t key = 0, const std::string &name = "part",
              Location location = Location::current()) const;

  // The library's own.
  GroupState *state() const {
    return state_.get();
  }

private:
  std::shared_ptr<GroupState> state_;
};

// How a process joins its job.
struct JoinOptions {
  // What carries the bytes (docs/collectives.md): "gloo", or one that a plugin brings. Empty:
  // WEFT_COLLECTIVE_LAYER, else gloo.
  std::string layer;
};
// Joins the job that this process is a rank of, by the variables of what started it
// (tools/launch.sh, torchrun, mpirun, srun), and waits for the other ranks; a job of one rank where
// nothing did. The group of all. Errors: kValue where the variables contradict each other, kRun
// where ranks are late or of another job; kState where the process has joined already. In
// run_ranks() the group that the thread's rank is in already.
Group init(const JoinOptions &options = {}, Location location = Location::current());
// The group of all ranks: in run_ranks() of that thread's job. Error kState: init() comes first.
Group world(Location location = Location::current());
// Whether there is one.
bool is_initialized();
// Ends the job on all ranks with what ended this one, for main's catch: without it the others learn
// no more than that this rank has left. Nothing where there is no job.
void end_job(const std::exception &error);

// Runs `rank` on so many threads, which are the ranks of a job in this process, each with a device
// of its own (cpu:1 for rank 0, ...; WEFT_CPU_DEVICES=n makes them) as its DeviceScope. Waits for
// all; throws what the rank of the lowest number threw, or kRun where there is no thread for one of
// them. The reference for tests, and a way to try a program. Ranks share what a process has one of:
// the default generator's seed, Config. They may all read tensors of cpu:0, and compute there: what
// a rank computes on any device of the processors stands in one line of its own.
void run_ranks(int ranks, const std::function<void()> &rank,
               Location location = Location::current());

} // namespace weft::distributed
