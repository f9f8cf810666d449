// The contestants of the suite `ops` that are programs (benchmarks/common/contestant.h): Weft;
// `limit`, a memcpy of the bytes that a case reads and writes, or a sum of the words that it reads
// where it writes next to nothing; and oneDNN, called directly, for the cases that it has. Usage:
// worker weft|limit|onednn.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "benchmarks/common/suite.h"
#include "benchmarks/ops/cases.h"
#include "benchmarks/ops/onednn.h"
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

std::function<void()> copy_of(int64_t bytes) {
  auto half = static_cast<size_t>(bytes / 2);
  auto from = std::make_shared<std::vector<char>>(half, 1),
       to = std::make_shared<std::vector<char>>(half, 2);
  int threads = weft::runtime::default_threads();
  return [=] {
    Copy copy{from->data(), to->data()};
    auto count = static_cast<int64_t>(half);
    weft::runtime::parallel_for(count,
                                std::max<int64_t>((count / threads + 4095) / 4096 * 4096, 64 << 10),
                                threads, copy_part, &copy);
  };
}

// Words of the inputs, one behind the other as a range.
struct Read {
  std::vector<std::pair<const uint64_t *, int64_t>> inputs; // words, and how many
  std::atomic<uint64_t> sum{0};                             // so that they are read indeed
};

int32_t read_part(void *data, int, int64_t begin, int64_t end) {
  Read &read = *static_cast<Read *>(data);
  uint64_t sum = 0;
  for (auto [words, count] : read.inputs) {
    for (int64_t i = std::max<int64_t>(begin, 0); i < std::min(end, count); ++i)
      sum += words[i];
    begin -= count;
    end -= count;
  }
  read.sum += sum;
  return 0;
}

std::function<void()> read_of(const OpCase &made) {
  auto read = std::make_shared<Read>();
  int64_t words = 0;
  for (const weft::Tensor &input : made.inputs) {
    read->inputs.emplace_back(static_cast<const uint64_t *>(input.data_bytes()),
                              input.nbytes() / 8);
    words += read->inputs.back().second;
  }
  int threads = weft::runtime::default_threads();
  return [=, inputs = made.inputs] { // the tensors keep the memory
    weft::runtime::parallel_for(words, std::max<int64_t>(words / threads / 8, 8 << 10), threads,
                                read_part, read.get());
  };
}

std::function<void()> limit_of(const OpCase &made) {
  return made.reads ? read_of(made) : copy_of(made.bytes);
}

} // namespace

int main(int argc, char **argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "onednn")
    return serve_cases([](const std::string &name) { return onednn_best(op_case_problem(name)); });
  if (mode == "limit")
    return serve_cases([](const std::string &name) { return limit_of(make_op_case(name)); });
  if (mode == "weft")
    return serve_cases([](const std::string &name) -> std::function<void()> {
      OpCase current = make_op_case(name);
      return [current] {
        weft::eval(current.run());
      };
    });
  std::cerr << "usage: worker weft|limit|onednn\n";
  return 2;
}
