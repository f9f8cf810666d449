#include "weft/models/registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "weft/random.h"

namespace weft::models {
namespace {

// Records come from static objects of many files, and from plugins that are loaded later.
struct Registry {
  std::mutex mutex;
  std::map<std::string, Record> records;
};

Registry &registry() {
  static auto *registry = new Registry;
  return *registry;
}

// How many letters have to be put in, left out or changed.
size_t edit_distance(const std::string &from, const std::string &to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      size_t changed = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
    }
  }
  return row.back();
}

// So many names are given to whoever asks for one that is not there: a family has two or three.
constexpr size_t kNearest = 3;

} // namespace

std::vector<Tensor> Record::example(int64_t batch, Location location) const {
  if (batch < 1)
    throw Error(ErrorKind::kValue,
                name + ": a batch has at least 1 sample, not " + std::to_string(batch), location);
  std::vector<Tensor> tensors;
  for (const Input &input : inputs) {
    Shape shape = input.sample;
    shape.insert(shape.begin(), batch);
    tensors.push_back(input.count ? randint(0, input.count, shape, default_generator(), location)
                                  : rand(shape, float32, location));
  }
  return tensors;
}

std::vector<Record> all() {
  std::lock_guard lock(registry().mutex);
  std::vector<Record> records;
  for (const auto &[name, record] : registry().records)
    records.push_back(record);
  return records;
}

Record find(const std::string &name, Location location) {
  std::vector<std::pair<size_t, std::string>> near;
  {
    std::lock_guard lock(registry().mutex);
    if (auto found = registry().records.find(name); found != registry().records.end())
      return found->second;
    for (const auto &[known, record] : registry().records)
      near.emplace_back(edit_distance(name, known), known);
  }
  std::ranges::sort(near);
  std::string message = "there is no model '" + name + "'";
  for (size_t i = 0; i < std::min(near.size(), kNearest); ++i)
    message += (i ? ", " : "; the nearest names are ") + near[i].second;
  throw Error(ErrorKind::kValue, message, location);
}

void add(Record record, Location location) {
  std::lock_guard lock(registry().mutex);
  std::string name = record.name;
  if (!registry().records.emplace(name, std::move(record)).second)
    throw Error(ErrorKind::kState, "models::add: there is a model '" + name + "' already",
                location);
}

std::vector<Input> image_input() {
  return {{.sample = {3, 224, 224}}};
}

} // namespace weft::models
