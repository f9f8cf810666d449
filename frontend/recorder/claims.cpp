#include "frontend/recorder/claims.h"

#include <atomic>

namespace weft::recorder {

static std::atomic<uint32_t> claims_ended = 0;
static uint32_t waiting = 0; // threads, under the recorder's lock

void end_claim() {
  ++claims_ended;
  if (waiting > 0) // else it would be a system call for each program
    claims_ended.notify_all();
}

void wait_for_a_claim() {
  // Still under the recorder's lock: the claim that we met has not ended yet.
  uint32_t seen = claims_ended;
  ++waiting;
  {
    RecorderMutex::Pause pause(recorder().mutex);
    claims_ended.wait(seen);
  }
  --waiting;
}

Claim::Claim(Slice &slice) : slice_(&slice) {
  claim(slice);
}

Claim::~Claim() {
  if (!slice_)
    return;
  unclaim(*slice_);
  end_claim();
}

void Claim::succeed() {
  retire(*slice_);
  slice_ = nullptr;
  end_claim();
}

} // namespace weft::recorder
