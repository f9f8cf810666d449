// How recorded collectives find their group.
#pragma once

#include <memory>

#include "frontend/distributed/group_state.h"

namespace weft::distributed {

// Ops that name state->id run on its executor from now on.
void register_group(std::shared_ptr<GroupState> state);
// They do not any more.
void forget_group(const GroupState &state);

} // namespace weft::distributed
