// Which rank of how many this process is, and where the ranks meet, from what started it.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::runtime {

struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1; // on this machine
  // Rank 0 listens at `port`, the others connect to address:port. With `file` instead, it listens
  // anywhere and writes into that file where. A world of one rank needs neither, nor does one whose
  // layer has a way to meet.
  std::string address, file;
  int port = 0;
  std::string starter; // what has set rank and size, for errors
  std::string job;     // what the starter calls it; ranks of another job are refused. May be empty
  // Within 10 s after a fault all ranks have ended, what they do about it included.
  double timeout_seconds = 9; // WEFT_COLLECTIVE_TIMEOUT
  // In which all ranks have to come; 0: timeout_seconds. Machines of a cluster may start minutes
  // apart. WEFT_RENDEZVOUS_TIMEOUT
  double meeting_timeout_seconds = 0;

  double meeting_seconds() const {
    return meeting_timeout_seconds > 0 ? meeting_timeout_seconds : timeout_seconds;
  }
};

// getenv, or what stands in for it: null for a variable that is not there.
using Environment = std::function<const char *(const char *name)>;

// From the variables of tools/launch.sh and torchrun (RANK, ...), else mpirun
// (OMPI_COMM_WORLD_...), else srun (SLURM_...); one rank without any of them. WEFT_RENDEZVOUS=file
// or MASTER_ADDR and MASTER_PORT say where the ranks meet; srun's nodes and job number do where
// neither is set. InvalidArgument names the variable that is missing, is no number, or contradicts
// another one. Whether ranks have where to meet is seen when they do (tcp_store.h): some layers
// need no such variables.
absl::StatusOr<World> world_from_environment(const Environment &environment);
absl::StatusOr<World> world_from_environment(); // of this process
// That of a rank which is a thread of this process: of the variables the timeouts alone count.
absl::StatusOr<World> world_of_threads(int rank, int size);

} // namespace weft::runtime
