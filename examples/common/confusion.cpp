#include "examples/common/confusion.h"

#include <algorithm>
#include <cstdio>

namespace examples {

int64_t Confusion::total() const {
  int64_t sum = 0;
  for (int64_t count : counts)
    sum += count;
  return sum;
}

double Confusion::accuracy() const {
  int64_t right = 0;
  for (int64_t i = 0; i < classes; ++i)
    right += at(i, i);
  return total() == 0 ? 0 : static_cast<double>(right) / static_cast<double>(total());
}

std::string table_of(const Confusion &confusion, std::span<const std::string> names) {
  const std::string head = "is \\ taken";
  size_t name_width = head.size(), width = 5;
  for (const std::string &name : names)
    name_width = std::max(name_width, name.size());
  for (int64_t count : confusion.counts)
    width = std::max(width, std::to_string(count).size() + 1);
  auto padded = [](const std::string &text, size_t to) {
    return std::string(to > text.size() ? to - text.size() : 0, ' ') + text;
  };
  std::string table = padded(head, name_width);
  for (int64_t i = 0; i < confusion.classes; ++i)
    table += padded(std::to_string(i), width);
  table += "\n";
  for (int64_t is = 0; is < confusion.classes; ++is) {
    const size_t row = static_cast<size_t>(is);
    table += padded(row < names.size() ? names[row] : std::to_string(is), name_width);
    for (int64_t taken = 0; taken < confusion.classes; ++taken)
      table += padded(std::to_string(confusion.at(is, taken)), width);
    table += "\n";
  }
  return table;
}

} // namespace examples
