#include "weft/nn/unlisted.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace weft::nn {
namespace {

// One that makes modules and lists none may make any number of them.
constexpr size_t kMostModules = 10000;

struct Registry {
  std::mutex mutex;
  std::map<uint64_t, Unlisted> modules; // in the order in which they were made
  std::unordered_map<const void *, uint64_t> numbers;
  uint64_t next = 0;
};

// Never destroyed: modules in static variables outlive main().
Registry &registry() {
  static auto *made = new Registry;
  return *made;
}

} // namespace

void note_parameter(const void *module, const std::string &name, const Tensor &parameter,
                    Location location) {
  Registry &r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (r.numbers.size() >= kMostModules)
    return;
  auto [it, fresh] = r.numbers.try_emplace(module, r.next);
  if (fresh)
    r.modules[r.next++].made = location;
  r.modules[it->second].parameters.emplace_back(name, parameter);
}

void note_listed(const void *module) {
  Registry &r = registry();
  Unlisted gone; // dropped after the lock: tensors take another one
  std::lock_guard<std::mutex> lock(r.mutex);
  auto found = r.numbers.find(module);
  if (found == r.numbers.end())
    return;
  gone = std::move(r.modules[found->second]);
  r.modules.erase(found->second);
  r.numbers.erase(found);
}

void note_listed(const std::vector<Tensor> &parameters) {
  std::unordered_set<const void *> given;
  for (const Tensor &parameter : parameters)
    given.insert(parameter.impl());
  Registry &r = registry();
  std::vector<Unlisted> gone;
  std::lock_guard<std::mutex> lock(r.mutex);
  std::erase_if(r.numbers, [&](const auto &entry) {
    auto module = r.modules.find(entry.second);
    const NamedTensors &own = module->second.parameters;
    if (std::none_of(own.begin(), own.end(),
                     [&](const auto &named) { return given.count(named.second.impl()) > 0; }))
      return false;
    gone.push_back(std::move(module->second));
    r.modules.erase(module);
    return true;
  });
}

std::vector<Unlisted> take_unlisted_with_gradients() {
  Registry &r = registry();
  std::vector<std::pair<const void *, Unlisted>> all;
  {
    std::lock_guard<std::mutex> lock(r.mutex);
    std::map<uint64_t, const void *> in_order;
    for (const auto &[module, number] : r.numbers)
      in_order.emplace(number, module);
    for (const auto &[number, module] : in_order)
      all.emplace_back(module, r.modules[number]);
  }
  // Without the lock: tensors take another one.
  std::vector<Unlisted> found;
  for (auto &[module, own] : all)
    if (std::any_of(own.parameters.begin(), own.parameters.end(),
                    [](const auto &named) { return named.second.grad().defined(); })) {
      note_listed(module);
      found.push_back(std::move(own));
    }
  return found;
}

} // namespace weft::nn
