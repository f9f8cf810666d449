// The executors of the process: whose work a run is, and whose a thread waits for.
#pragma once

#include <cstdint>

#include "runtime/executor/executor.h"

namespace weft::recorder {

// Of a rank that is a thread of this process: the device that is its own, whatever scope the thread
// is in. -1: of all other threads.
extern constinit thread_local int16_t rank_device;

// Where a run is started that is the work of `given`, by this thread.
runtime::Executor &executor_for(runtime::Executor &given);
// Until all launched programs have ended, on all devices.
void drain();
// As drain(), without the recorder's lock, which is held; gives back what they leave, for a last
// attempt where there is no memory.
void make_room();

} // namespace weft::recorder
