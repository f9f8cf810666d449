// Hands compiled programs to their device.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "frontend/recorder/record/values.h"
#include "frontend/recorder/runs/evaluation.h"
#include "runtime/executable/executable.h"
#include "runtime/executor/executor.h"
#include "runtime/memory/asking.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"

namespace weft::recorder {

// Of a rank that is a thread of this process: the device that is its own, whatever scope the thread
// is in. -1: of all other threads.
extern constinit thread_local int16_t rank_device;

struct Launch {
  uint8_t device = 0; // that its inputs lie on, and whose executor runs it, but for a rank's
  uint8_t result_device = 0;
  std::shared_ptr<runtime::Executor> executor = nullptr; // another one that does
  std::shared_ptr<runtime::Executable> executable;
  std::vector<std::shared_ptr<runtime::Buffer>> inputs;
  // Runs of the same step that must have succeeded before this one begins, and where its own end
  // goes (runtime/executor/executor.h).
  std::vector<std::shared_ptr<const runtime::Event>> after;
  std::shared_ptr<const runtime::Event> *end = nullptr;
  // Filled by the launch: new buffers, or those that outputs are tied to.
  std::vector<std::shared_ptr<runtime::Buffer>> outputs;
  std::vector<runtime::Origin> origins = {}; // of the outputs, where somebody wants to know
};

// Acquires all that the run needs, and starts it; the record learns of its end. A failure that is
// returned happened before the first instruction; a later one poisons the outputs' buffers. The
// launch's inputs become the run's.
absl::StatusOr<runtime::Executor::Started> start(Launch &launch,
                                                 std::shared_ptr<EvaluationRecord> record);
// Until all launched programs have ended, on all devices.
void drain();
// As drain(), without the recorder's lock, which is held; gives back what they leave, for a last
// attempt where there is no memory.
void make_room();

} // namespace weft::recorder
