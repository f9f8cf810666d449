// The collective layers of this process (runtime/abi/weft_collective.h), by name.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/abi/weft_collective.h"

namespace weft::runtime {

// The layer of this name, which stays valid. NotFound lists the names of those that are registered.
absl::StatusOr<const weft_collective_layer *> find_collective_layer(std::string_view name);

// Loads a library for good and registers the layers that it brings (weft_collective_plugin): for
// programs without the compiler, whose loader of plugins finds layers, too. Loading one file twice
// does nothing. NotFound where it does not load, InvalidArgument where it is no such plugin,
// FailedPrecondition for what its registration says.
absl::Status load_collective_plugin(const std::string &path);

// The same for a library that is loaded; `entry` is what it exports under that name.
absl::Status register_layers_of(const std::string &path, decltype(&weft_collective_plugin) entry);

} // namespace weft::runtime
