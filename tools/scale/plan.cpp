#include "tools/scale/plan.h"

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <utility>

namespace weft::scale {
namespace {

constexpr size_t kMostParts = 1024, kLeastSteps = 3;

struct Evaluation {
  uint64_t number = 0;
  std::string signature; // what is the same in each step
  Part part;
  std::vector<uint64_t> after;
  double began = 0, seconds = 0;
  double end() const {
    return began + seconds;
  }
};

double number_of(const std::smatch &match, size_t i = 1) {
  return std::stod(match[i].str());
}

// "[0] weft #12 eval train.cpp:5 | ..." (frontend/report/explain.cpp).
bool read_line(const std::string &line, Evaluation &result) {
  static const std::regex start(R"(^(?:\[0\] )?weft #(\d+) (\w+ \S+) \| )"),
      exchange(R"(^(weft\.\w+) (.*?) of (.*) \| (\d+) B, ([\d.]+) ms)"),
      program(R"(^(?:on \S+ \| )?(\d+ ops -> [^|]*\| [^|]*)\| hit)"
              R"(.* run ([\d.]+) ms \| .*peak (\d+) B)"),
      after(R"(\| after((?: #\d+)+))"), began(R"(\| began ([\d.]+) ms)"), number(R"(#(\d+))");
  std::smatch match;
  if (!std::regex_search(line, match, start))
    return false;
  result.number = std::stoull(match[1].str());
  result.signature = match[2].str();
  const std::string rest = match.suffix().str();
  if (std::regex_search(rest, match, exchange) &&
      find_collective(match[1].str(), result.part.kind)) {
    result.part.is_exchange = true;
    result.part.of_gradients = match[3].str().starts_with("gradients of ");
    result.part.bytes = number_of(match, 4);
    result.seconds = number_of(match, 5) / 1e3;
    result.signature += match[1].str() + match[2].str() + match[3].str();
  } else if (std::regex_search(rest, match, program)) {
    result.seconds = number_of(match, 2) / 1e3;
    result.part.peak_bytes = number_of(match, 3);
    result.signature += match[1].str();
  } else {
    result.signature += "#" + std::to_string(result.number); // it is like no other
  }
  if (std::regex_search(rest, match, began))
    result.began = number_of(match) / 1e3;
  if (std::regex_search(rest, match, after)) {
    const std::string list = match[1].str();
    for (std::sregex_iterator i(list.begin(), list.end(), number), end; i != end; ++i)
      result.after.push_back(std::stoull((*i)[1].str()));
  }
  return true;
}

struct Stretch {
  size_t begin = 0, period = 0, repeats = 0;
};

// Linear for each period, of which there are kMostParts at most.
Stretch longest_stretch(const std::vector<Evaluation> &all) {
  Stretch best;
  size_t most = 0;
  for (size_t period = 1; period <= std::min(kMostParts, all.size() / kLeastSteps); ++period) {
    size_t begin = 0;
    for (size_t i = period; i <= all.size(); ++i) {
      if (i < all.size() && all[i].signature == all[i - period].signature)
        continue;
      size_t length = i - begin, repeats = length / period;
      bool exchanges = std::any_of(all.begin() + static_cast<int64_t>(begin),
                                   all.begin() + static_cast<int64_t>(begin + period),
                                   [](const Evaluation &each) { return each.part.is_exchange; });
      if (repeats >= kLeastSteps && exchanges && length > most) {
        most = length;
        best = {begin, period, repeats};
      }
      begin = i - period + 1;
    }
  }
  return best;
}

// Of [begin, end), the time in intervals of the one kind and in none of the other.
double time_of(const std::vector<Evaluation> &all, double begin, double end, bool of_exchanges) {
  std::vector<std::pair<double, std::pair<int, int>>> changes; // programs, exchanges
  for (const Evaluation &each : all) {
    double from = std::max(begin, each.began), to = std::min(end, each.end());
    if (from >= to)
      continue;
    int program = !each.part.is_exchange;
    changes.push_back({from, {program, !program}});
    changes.push_back({to, {-program, -!program}});
  }
  std::sort(changes.begin(), changes.end());
  double time = 0, last = begin;
  int programs = 0, exchanges = 0;
  for (const auto &[at, change] : changes) {
    if (of_exchanges ? programs == 0 && exchanges > 0 : programs > 0)
      time += at - last;
    last = at;
    programs += change.first;
    exchanges += change.second;
  }
  return time;
}

} // namespace

MeasuredStep read_step(std::istream &lines) {
  std::vector<Evaluation> all;
  for (std::string line; std::getline(lines, line);)
    if (Evaluation each; read_line(line, each))
      all.push_back(std::move(each));
  std::sort(all.begin(), all.end(),
            [](const Evaluation &a, const Evaluation &b) { return a.number < b.number; });
  Stretch found = longest_stretch(all);
  if (found.repeats == 0)
    throw std::runtime_error(
        "the program's " + std::to_string(all.size()) +
        " evaluations have no step with collectives that comes three times in a row: let it run "
        "some more steps, with WEFT_EXPLAIN=1, as ranks of a job");
  // The first repeat may still wait for what came before it, and the last one's end is not seen.
  const size_t first = found.begin + found.period;
  const size_t steps = found.repeats - 2;
  MeasuredStep result;
  result.steps = steps;
  std::map<uint64_t, size_t> places;
  for (size_t i = found.begin; i < found.begin + found.period * found.repeats; ++i)
    places[all[i].number] = i;
  for (size_t p = 0; p < found.period; ++p) {
    Part part = all[first + p].part;
    for (size_t step = 0; step < steps; ++step)
      part.seconds += all[first + step * found.period + p].seconds / static_cast<double>(steps);
    for (uint64_t number : all[first + p].after)
      if (auto place = places.find(number); place != places.end() && !part.is_exchange) {
        size_t from = place->second - found.begin; // the part's own step is the second one
        part.needs.push_back({from % found.period, 1 - from / found.period});
      }
    result.parts.push_back(std::move(part));
  }
  // From the first part of a step to that of another one, which is a program's begin.
  size_t anchor = 0;
  while (anchor + 1 < found.period && result.parts[anchor].is_exchange)
    ++anchor;
  double begin = all[first + anchor].began, end = all[first + anchor + steps * found.period].began;
  result.seconds = (end - begin) / static_cast<double>(steps);
  result.computed = time_of(all, begin, end, false) / static_cast<double>(steps);
  result.exposed = time_of(all, begin, end, true) / static_cast<double>(steps);
  return result;
}

} // namespace weft::scale
