// The Weft side of the suite `ops`, and its limit: a memcpy of the bytes that a case reads and writes. A contestant
// (benchmarks/common/contestant.h) that changes its work at "case NAME". Usage: worker weft|limit.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "benchmarks/common/suite.h"
#include "benchmarks/ops/cases.h"
#include "runtime/threading/parallel_for.h"
#include "weft/weft.h"

namespace {

using namespace weft::benchmarks;

struct Copy {
  char *from, *to;
};

int32_t copy_part(void *data, int, int64_t begin, int64_t end) {
  const Copy &copy = *static_cast<const Copy *>(data);
  std::memcpy(copy.to + begin, copy.from + begin, static_cast<size_t>(end - begin));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  bool limit = argc > 1 && std::string(argv[1]) == "limit";
  int threads = weft::runtime::default_threads();
  return serve_cases([&](const std::string &name) -> std::function<void()> {
    OpCase current = make_op_case(name);
    if (!limit) return [current] { weft::eval(current.run()); };
    auto half = static_cast<size_t>(current.bytes / 2);
    auto from = std::make_shared<std::vector<char>>(half, 1), to = std::make_shared<std::vector<char>>(half, 2);
    return [=] {
      Copy copy{from->data(), to->data()};
      auto bytes = static_cast<int64_t>(half);
      weft::runtime::parallel_for(bytes, std::max<int64_t>((bytes / threads + 4095) / 4096 * 4096, 64 << 10), threads, copy_part, &copy);
    };
  });
}
