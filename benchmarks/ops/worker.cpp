// The Weft side of the suite `ops`, and its limit: a memcpy of the bytes that a case reads and writes. A contestant
// (benchmarks/common/contestant.h) that changes its work at "case NAME". Usage: worker weft|limit.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "benchmarks/common/report.h"
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
  OpCase current;
  std::vector<char> from, to;
  auto work = [&] {
    if (limit) {
      Copy copy{from.data(), to.data()};
      int64_t bytes = static_cast<int64_t>(from.size());
      weft::runtime::parallel_for(bytes, std::max<int64_t>((bytes / threads + 4095) / 4096 * 4096, 64 << 10), threads, copy_part, &copy);
    } else {
      weft::eval(current.run());
    }
  };
  std::cout << "ready 0" << std::endl;
  std::string word, argument;
  while (std::cin >> word >> argument) {
    double start = now();
    if (word == "case") {
      try {
        current = make_op_case(argument);
        if (limit) {
          from.assign(static_cast<size_t>(current.bytes / 2), 1);
          to.assign(from.size(), 2);
        }
        for (int i = 0; i < 3; ++i) work();
      } catch (const std::exception &error) {
        std::cerr << "ops worker: " << error.what() << "\n";
        return 1;
      }
      std::cout << "ready " << now() - start << std::endl;
    } else {
      for (int64_t i = 0, n = std::atoll(argument.c_str()); i < n; ++i) work();
      std::cout << now() - start << std::endl;
    }
  }
}
