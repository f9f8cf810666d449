// An allocator that counts what a training run takes.
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "runtime/memory/allocator.h"
#include "weft/weft.h"

// Takes memory from the C library and counts it. Several threads allocate, hence the atomics.
class CountingAllocator : public weft::runtime::Allocator {
public:
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    int64_t rounded = (bytes + alignment) / alignment *
                      alignment; // aligned_alloc wants a multiple, and 0 bytes are something, too
    void *pointer =
        std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
    if (!pointer)
      return absl::ResourceExhaustedError("the C library has no more memory");
    live_bytes_ += bytes;
    ++allocations_;
    return pointer;
  }
  void free(void *pointer, int64_t bytes) override {
    if (!pointer)
      return;
    live_bytes_ -= bytes;
    std::free(pointer);
  }
  weft::runtime::AllocatorStats stats() const override {
    weft::runtime::AllocatorStats stats;
    stats.live_bytes = stats.reserved_bytes = live_bytes_;
    stats.allocations = allocations_;
    return stats;
  }

private:
  std::atomic<int64_t> live_bytes_ = 0, allocations_ = 0;
};

int main() {
  auto allocator = std::make_shared<CountingAllocator>();
  weft::set_allocator(allocator);
  {
    weft::nn::Linear model(64, 8);
    weft::optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    weft::Tensor x = weft::randn({32, 64});
    for (int step = 0; step < 3; ++step) {
      weft::Tensor loss = weft::nn::mse(model(x), weft::zeros({32, 8}));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      std::cout << "step " << step << ": loss " << loss.item<float>() << ", "
                << allocator->stats().live_bytes << " bytes live\n";
    }
    if (allocator->stats().live_bytes < 4 * (64 * 8 + 8 + 32 * 64))
      return 1; // the model and x alone
  }
  weft::synchronize();
  std::cout << allocator->stats().allocations << " allocations, " << allocator->stats().live_bytes
            << " bytes live at the end\n";
  return 0;
}
