#include "examples/common/curve.h"

#include <cstdio>
#include <cstdlib>

#include "weft/error.h"
#include "weft/io/files.h"

namespace examples {

Curve::Curve(std::string path, const std::string &last_column, int64_t step)
    : path_(std::move(path)) {
  std::string kept = "step,loss," + last_column + "\n";
  if (step > 0) {
    std::ifstream old(path_);
    std::string line;
    std::getline(old, line);
    while (std::getline(old, line) && !old.eof() && std::atoll(line.c_str()) <= step)
      kept += line + "\n";
  }
  weft::io::write_file(path_, kept);
  stream_.open(path_, std::ios::app);
}

void Curve::add(int64_t step, float loss, std::optional<double> last) {
  char line[96];
  int length = std::snprintf(line, sizeof line, "%lld,%.9g,", static_cast<long long>(step), loss);
  if (last)
    std::snprintf(line + length, sizeof line - static_cast<size_t>(length), "%.17g", *last);
  stream_ << line << "\n";
}

void Curve::flush() {
  if (!stream_.flush())
    throw weft::Error(weft::ErrorKind::kFile, "cannot write '" + path_ + "'");
}

} // namespace examples
