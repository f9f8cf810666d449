// A buffer's bytes from one device's memory to another's.
#pragma once

#include "runtime/executor/device.h"

namespace weft::runtime {

// Takes one buffer of `bytes` bytes in the memory of `from` and writes one in that of `to`. The
// executor of `from` runs it: what made the bytes is over then, and the executor of `to` goes on
// with what does not need them.
std::shared_ptr<Executable> make_transfer(Device &from, Device &to, int64_t bytes);

} // namespace weft::runtime
