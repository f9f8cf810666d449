#include "frontend/recorder/claims.h"

#include <condition_variable>
#include <mutex>

namespace weft::recorder {
namespace {

// Of all threads that wait for some claim to end.
std::mutex claims_mutex;
std::condition_variable claims_ended;
uint64_t claims_count = 0;

} // namespace

void end_claim() {
  {
    std::lock_guard<std::mutex> lock(claims_mutex);
    ++claims_count;
  }
  claims_ended.notify_all();
}

void wait_for_a_claim() {
  uint64_t seen;
  {
    std::lock_guard<std::mutex> lock(claims_mutex);
    seen = claims_count; // still under the recorder's lock: the claim that we met has not ended yet
  }
  RecorderMutex::Pause pause(recorder().mutex);
  std::unique_lock<std::mutex> lock(claims_mutex);
  claims_ended.wait(lock, [&] { return claims_count != seen; });
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
