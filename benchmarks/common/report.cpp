#include "benchmarks/common/report.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace weft::benchmarks {

Report::Report(const std::string &path)
    : file_(path.empty() ? stdout : std::fopen(path.c_str(), "a")), owned_(!path.empty()) {
  if (!file_)
    throw std::runtime_error("cannot write '" + path + "': " + std::strerror(errno));
}

Report::~Report() {
  if (owned_)
    std::fclose(file_);
}

void Report::add(const Measurement &m) {
  nlohmann::ordered_json line = {{"suite", m.suite},     {"case", m.name},  {"impl", m.impl},
                                 {"metric", m.metric},   {"unit", m.unit},  {"value", m.value},
                                 {"threads", m.threads}, {"batch", m.batch}};
  if (!m.series.empty())
    line["series"] = m.series;
  std::fprintf(file_, "%s\n", line.dump().c_str());
  std::fflush(file_);
  std::fprintf(stderr, "  %-34s %-14s %12.4g %s\n", m.name.c_str(), m.impl.c_str(), m.value,
               m.unit.c_str());
}

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace weft::benchmarks
