// What a launch may do with memory on a GPU, checked access by access while the simulator runs it:
// accesses lie in an operand and at their alignment, nothing is read that nobody wrote, and no
// thread reads or writes what another one writes in the same launch without a barrier between them.
//
// Threads that have no element look at one of another thread and drop what they find. So a load of
// an operand that races with a store, or that nobody wrote, is no error: it finds bytes that no
// result can come from, and what a launch leaves must be the same in both orders of its threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::backends::cuda {

// Memory that a kernel may touch: an operand, or what the threads of a block share.
struct MemoryRange {
  uintptr_t begin = 0;
  int64_t bytes = 0;
  int64_t unit = 1; // bytes of an element
  bool isShared = false;
  bool isCached = false;  // read through a cache that sees no writes of the launch
  bool isWritten = false; // what has this name is
  bool isDefined = true;  // holds something when the launch begins
  bool isFlag = false;    // threads write the same there, in any order
  std::string name;
};

struct Access {
  uintptr_t address = 0;
  int64_t bytes = 0, alignment = 1;
  bool isWrite = false, isShared = false;
};

class SimulatedMemory {
public:
  // For launches over those ranges. Empty, or what is wrong with them.
  std::string open(std::vector<MemoryRange> ranges);
  // What the ranges hold that the kernel writes.
  using Image = std::vector<std::byte>;
  Image image();
  void set(const Image &image);
  // Empty, or where they differ.
  std::string difference(const Image &one, const Image &other);
  // Nobody has touched anything yet.
  void start();
  // The block that runs now.
  void startBlock(int32_t block) {
    block_ = block;
    epoch_ = 0;
  }
  void passBarrier() {
    ++epoch_;
  }
  // False where wrong() says what is.
  bool see(const Access &access, uint32_t thread);
  const std::string &wrong() const {
    return wrong_;
  }

private:
  // Who touched some bytes last. What a thread did before a barrier comes before what its block
  // does behind it; blocks have no order.
  static constexpr int32_t kNobody = -1, kSeveralBlocks = -2;
  static constexpr uint32_t kSeveralThreads = (1u << 11) - 1, kMostEpochs = 1u << 21;
  struct Toucher {
    int32_t block = kNobody;
    uint32_t thread : 11 = 0, epoch : 21 = 0;
  };
  struct Cell {
    Toucher writer, reader;
  };
  struct Region {
    uintptr_t begin = 0, end = 0;
    int64_t unit = 1; // bytes of a cell, a power of 2, as alignments are
    int shift = 0;    // its logarithm
    std::vector<Cell> cells;
    std::vector<MemoryRange> ranges; // several where an output lies in place of an input
    bool isShared = false, isDefined = true, isFlag = false;
  };

  // What an access does wrongly; in an operand it may be a load whose value is dropped.
  struct Conflict {
    const char *what = nullptr;
    bool mayBeDropped = false;
  };
  Region *find(const Access &access);
  bool comesBefore(const Toucher &other, uint32_t thread) const;
  Conflict conflict(const Region &region, const Cell &cell, bool isWrite, uint32_t thread) const;
  void note(Cell &cell, bool isWrite, bool isShared, uint32_t thread) const;

  void spoil(const Access &access);
  void unspoil();
  void eachWritten(const std::function<void(const Region &)> &see) const;
  std::string show(const Access &access, const Region *region, uint32_t thread,
                   const char *what) const;
  bool refuse(const Access &access, const Region *region, uint32_t thread, const char *what) {
    wrong_ = show(access, region, thread, what);
    return false;
  }

  std::vector<Region> regions_;
  std::string wrong_;
  std::string race_; // the first one whose value may have been dropped
  uintptr_t spoilt_ = 0;
  Image saved_; // what lay there
  int32_t block_ = 0;
  uint32_t epoch_ = 0;
};

} // namespace weft::backends::cuda
