// How recorded collectives find their group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "frontend/distributed/group_state.h"

namespace weft::distributed {

// Ops that name state->id run on its executor from now on.
void register_group(std::shared_ptr<GroupState> state);
// The one of this id, while its job goes on.
std::weak_ptr<GroupState> find_group(const std::string &id);
// Those of a rank that is a thread of this process do not any more. Waits for what is under way.
void forget_groups(uint32_t rank);
// How many a rank has.
size_t count_groups(uint32_t rank);
// Of this process's rank: what was started has ended.
void finish_groups();

} // namespace weft::distributed
