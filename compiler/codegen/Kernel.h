// What codegen says of a kernel that it made from one weft.fusion: all that a launch needs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

// The attribute of a plan.kernel that keeps KernelInfo's sizes: a tensor type with these dims.
inline constexpr const char *kSizedAttr = "plan.sized";

// One choice of a kernel's schedule (Choices.h): its name, the value that holds, and all values
// that it may have.
struct ScheduleChoice {
  std::string name, value;
  std::vector<std::string> legal;
};

struct KernelInfo {
  // Symbol of the body: called over ranges of [0, count), by several threads at once.
  std::string symbol;
  // Symbol of the finish, empty for none: called once with [0, count) after the whole body, on one
  // thread; combines partial results in a fixed order, so that results do not depend on the number
  // of threads.
  std::string finish;
  int64_t count = 1;
  // The smallest range worth handing to another thread, in pieces.
  int64_t grain = 1;
  // Bytes of scratch that each thread needs.
  int64_t threadScratchBytes = 0;
  // Bytes of the buffer of partial results, shared by all threads, the last entry of `buffers`; 0
  // for none.
  int64_t partialsBytes = 0;
  // (output, input) pairs that may share one buffer: each element of the input is read before the
  // output's is written.
  llvm::SmallVector<std::pair<int64_t, int64_t>> inPlace;
  // Of a kernel that serves many sizes: the one that `count` is proportional to, and those that it
  // is told behind `count`. `count` and all sizes of memory are those of the largest. Empty: one
  // size.
  struct Size {
    std::string name;
    int64_t largest;
  };
  llvm::SmallVector<Size> sizes;
  // weft_kernel's ints at the largest sizes.
  llvm::SmallVector<int64_t> ints() const {
    llvm::SmallVector<int64_t> all = {count};
    for (const Size &size : llvm::drop_begin(sizes, sizes.empty() ? 0 : 1))
      all.push_back(size.largest);
    return all;
  }
  // Estimates for reports and the cost model.
  double flops = 0;
  double bytes = 0;
  // Of the schedule: what was chosen, and why pinned choices were not taken.
  std::vector<ScheduleChoice> schedule;
  std::vector<std::string> refusedPins;
  // What passes of users have said of it.
  std::vector<std::string> remarks;
};

} // namespace weft::compiler
