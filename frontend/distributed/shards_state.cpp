// The state of an optimizer over shards, as that of one over the whole parameters, and back.
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "frontend/distributed/shards.h"
#include "weft/autograd.h"
#include "weft/distributed/collectives.h"
#include "weft/eval.h"
#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::distributed {
namespace {

// "exp_avg.3" is parameter 3's "exp_avg.".
struct Numbered {
  std::string prefix;
  size_t index;
};
std::optional<Numbered> numbered(const std::string &name, size_t count) {
  size_t dot = name.rfind('.');
  if (dot == std::string::npos)
    return std::nullopt;
  Numbered result{name.substr(0, dot + 1), 0};
  const char *end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data() + dot + 1, end, result.index);
  if (error != std::errc() || rest != end || result.index >= count)
    return std::nullopt;
  return result;
}

// As Optimizer::state() names counts of steps: that of all, and that of a parameter by itself.
const std::string kCount = "step", kOwnCount = "step.";

constexpr size_t kNamesInErrors = 4;

std::string count_text(double steps) {
  return std::to_string(static_cast<int64_t>(steps));
}

} // namespace

std::vector<Tensor> Shards::whole(const std::vector<Tensor> &cut) const {
  NoGrad no_grad;
  std::vector<Tensor> result;
  // A bucket at a time: the other ranks have room for no more.
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (!cut[i].defined()) {
      for (size_t p = buckets[i].first; p < buckets[i].last && group.rank() == 0; ++p) {
        DeviceScope scope(parameters[p].device());
        result.push_back(nn::init::constant(parameters[p].shape(), 0, parameters[p].dtype()));
      }
      continue;
    }
    Tensor row = all_gather(cut[i].detach(), group);
    row.eval();
    if (group.rank() == 0)
      for (const Tensor &values : parts_of(row, parameters, buckets[i]))
        result.push_back(nn::init::copy_of(values));
  }
  return result;
}

Tensor Shards::part_of(const std::vector<Tensor> &tensors, Bucket bucket) const {
  Tensor row = row_of(tensors, bucket, group.size());
  int64_t part = row.numel() / group.size();
  return row.narrow(0, group.rank() * part, part);
}

nn::NamedTensors Shards::whole_state(const optim::Optimizer &optimizer, Location location) const {
  nn::NamedTensors result;
  // A state tensor beside each shard, by bucket; they stand in the order of the shards.
  std::map<std::string, std::vector<Tensor>> moments;
  std::vector<std::string> order;
  bool has_counts = false;
  nn::NamedTensors state = optimizer.state();
  for (const auto &[name, tensor] : state) {
    std::optional<Numbered> of = numbered(name, shards.size());
    if (!of) {
      has_counts = has_counts || name == kCount;
      result.emplace_back(name, nn::init::copy_of(tensor, location));
      continue;
    }
    size_t i = bucket_of_shard[of->index];
    if (tensor.shape() == shards[of->index].shape()) {
      std::vector<Tensor> &cut = moments[of->prefix];
      if (cut.empty()) {
        order.push_back(of->prefix);
        cut.resize(buckets.size());
      }
      cut[i] = tensor;
    } else {
      // A number that all parameters of the shard have.
      for (size_t p = buckets[i].first; p < buckets[i].last; ++p)
        result.emplace_back(of->prefix + std::to_string(p), nn::init::copy_of(tensor, location));
    }
  }
  // Frozen parameters took no step.
  for (size_t i = 0; has_counts && i < buckets.size(); ++i)
    for (size_t p = buckets[i].first; !is_trained[i] && p < buckets[i].last; ++p)
      result.emplace_back(kOwnCount + std::to_string(p), nn::init::constant({}, 0, float64));
  for (const std::string &prefix : order) {
    size_t next = 0;
    for (Tensor &tensor : whole(moments[prefix]))
      result.emplace_back(prefix + std::to_string(next++), std::move(tensor));
  }
  return group.rank() == 0 ? result : nn::NamedTensors();
}

void Shards::load_whole_state(optim::Optimizer &optimizer, const nn::NamedTensors &state,
                              Location location) const {
  location = CallerScope::resolve(location);
  auto refuse = [&](ErrorKind kind, const std::string &what) {
    throw Error(kind, "load_whole_state: " + what, location);
  };
  NoGrad no_grad;
  std::map<std::string, Tensor> given(state.begin(), state.end());
  std::set<std::string> used, prefixes{kOwnCount};
  nn::NamedTensors own;
  auto take = [&](const std::string &name) -> const Tensor & {
    auto found = given.find(name);
    if (found == given.end())
      refuse(ErrorKind::kValue, "there is no tensor for '" + name +
                                    "'; give what whole_state() gave, or state() of "
                                    "an optimizer over all of the parameters");
    used.insert(name);
    return found->second;
  };
  for (const auto &[name, tensor] : optimizer.state()) {
    std::optional<Numbered> of = numbered(name, shards.size());
    if (!of) {
      own.emplace_back(name, take(name));
      continue;
    }
    if (tensor.shape() != shards[of->index].shape())
      continue; // a count: below
    prefixes.insert(of->prefix);
    Bucket bucket = buckets[bucket_of_shard[of->index]];
    std::vector<Tensor> tensors;
    for (size_t p = bucket.first; p < bucket.last; ++p) {
      const Tensor &parameter = parameters[p], &its = take(of->prefix + std::to_string(p));
      if (its.shape() != parameter.shape() || its.dtype() != tensor.dtype())
        refuse(ErrorKind::kShape, "'" + of->prefix + std::to_string(p) + "' is " +
                                      weft::name(its.dtype()) + " " + to_string(its.shape()) +
                                      ", the parameter's has " + weft::name(tensor.dtype()) + " " +
                                      to_string(parameter.shape()));
      tensors.push_back(its.to(parameter.device()));
    }
    own.emplace_back(name, part_of(tensors, {0, tensors.size()}));
  }
  // A shard has one count of steps. A parameter that took none goes by the count of the others of
  // its shard: its moments are those of as many gradients of zeros, which is what a shard gives a
  // parameter without a gradient.
  for (size_t k = 0; used.contains(kCount) && k < shards.size(); ++k) {
    Bucket bucket = buckets[bucket_of_shard[k]];
    bool has_own = false;
    double steps = 0;
    size_t with_steps = bucket.first;
    for (size_t p = bucket.first; p < bucket.last; ++p) {
      auto found = given.find(kOwnCount + std::to_string(p));
      has_own = has_own || found != given.end();
      double its = (found == given.end() ? given.at(kCount) : found->second).item<double>(location);
      if (steps != 0 && its != 0 && its != steps)
        refuse(ErrorKind::kValue,
               "parameter " + std::to_string(with_steps) + " took " + count_text(steps) +
                   " steps, parameter " + std::to_string(p) + " " + count_text(its) +
                   ", and they lie in one shard, which has one count; go on with DataParallel, "
                   "whose optimizer counts each parameter's steps");
      if (its != 0) {
        steps = its;
        with_steps = p;
      }
    }
    if (has_own)
      own.emplace_back(kOwnCount + std::to_string(k), nn::init::constant({}, steps, float64));
  }
  // What a checkpoint has of frozen parameters, and counts, are the optimizer's too.
  for (const std::string &prefix : prefixes)
    for (size_t p = 0; p < parameters.size(); ++p)
      if (prefix != kOwnCount || used.contains(kCount))
        used.insert(prefix + std::to_string(p));
  std::string unknown;
  size_t unknown_count = 0;
  for (const auto &[name, tensor] : given)
    if (!used.contains(name) && ++unknown_count <= kNamesInErrors)
      unknown += (unknown.empty() ? "'" : ", '") + name + "'";
  if (unknown_count > 0)
    refuse(ErrorKind::kValue, std::to_string(state.size()) + " tensors are given, " +
                                  std::to_string(state.size() - unknown_count) +
                                  " of them are the optimizer's; it has no " + unknown +
                                  (unknown_count > kNamesInErrors ? ", ..." : ""));
  if (given.size() != state.size())
    refuse(ErrorKind::kValue, "two tensors that are given have one name");
  optimizer.load_state(own, location);
}

} // namespace weft::distributed
