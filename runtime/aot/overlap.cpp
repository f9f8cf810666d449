#include "runtime/aot/overlap.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace weft::runtime {

static std::string name_of(const GivenMemory &memory) {
  return absl::StrCat(memory.is_output ? "output " : "input ", memory.index);
}

absl::Status check_apart(std::vector<GivenMemory> given) {
  std::erase_if(given, [](const GivenMemory &memory) { return memory.bytes == 0; });
  std::sort(given.begin(), given.end(),
            [](const GivenMemory &a, const GivenMemory &b) {
              return std::tie(a.begin, a.is_output, a.index) <
                     std::tie(b.begin, b.is_output, b.index);
            });
  // What reaches furthest of all so far, and of the outputs.
  const GivenMemory *furthest = nullptr, *output = nullptr;
  auto reaches = [](const GivenMemory *a, const char *to) {
    return a && a->begin + a->bytes > to;
  };
  for (const GivenMemory &next : given) {
    if (const GivenMemory *before = next.is_output ? furthest : output;
        reaches(before, next.begin)) {
      const GivenMemory &written = before->is_output ? *before : next;
      const GivenMemory &other = before->is_output ? next : *before;
      return absl::InvalidArgumentError(absl::StrCat(name_of(written), " overlaps ",
                                                     name_of(other),
                                                     "; give each output memory of its own"));
    }
    const char *end = next.begin + next.bytes;
    if (!reaches(furthest, end))
      furthest = &next;
    if (next.is_output && !reaches(output, end))
      output = &next;
  }
  return absl::OkStatus();
}

} // namespace weft::runtime
