// What a group is to the library: the runtime's group, and the executor that its calls run on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/collective/communicator.h"
#include "runtime/executor/executor.h"
#include "weft/distributed/collectives.h"

namespace weft::distributed {

struct GroupState {
  std::shared_ptr<runtime::Communicator> job;
  std::shared_ptr<runtime::Group> group;
  // Of all groups of the process: what recorded ops name it by.
  std::string id;
  uint32_t rank = 0; // recorder::thread_rank of the one whose group it is
  // One thread: calls wait for each other and for other ranks, while the devices compute.
  std::shared_ptr<runtime::Executor> calls;
};

// Error kState for an undefined group.
GroupState &checked(const Group &group, const char *op, Location location);

// Runs `call`, which waits for other ranks, after what this rank has recorded and after the calls
// of the group before it; waits for it.
absl::Status in_order(GroupState &state, const char *op, Location location,
                      std::function<absl::Status()> call);

// Group::split(), for the function `op` of the library. Ranks compare `call`, "Mesh(data 2, model
// 2)", and errors show it.
Group split_off(const Group &of, int64_t color, int64_t key, const std::string &name,
                const char *op, const std::string &call, Location location);

// Of rows that hold several tensors: ranks compare `operand`, which says which ones, instead of the
// row's shape, and errors show it.
Tensor all_reduce_of(const std::string &operand, const Tensor &row, Reduction reduction,
                     const Group &group);
Tensor reduce_scatter_of(const std::string &operand, const Tensor &row, Reduction reduction,
                         const Group &group);
Tensor broadcast_of(const std::string &operand, const Tensor &row, int root, const Group &group);

} // namespace weft::distributed
