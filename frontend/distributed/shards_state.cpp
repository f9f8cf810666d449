// The state of an optimizer over shards, as that of one over the whole parameters, and back.
#include <charconv>
#include <map>
#include <optional>

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

std::string name_of(const Numbered &of, size_t parameter) {
  return of.prefix + std::to_string(parameter);
}

} // namespace

std::vector<Tensor> Shards::whole(const std::vector<Tensor> &parts) const {
  NoGrad no_grad;
  std::vector<Tensor> result;
  // A bucket at a time: the other ranks have room for no more.
  for (size_t i = 0; i < buckets.size(); ++i) {
    Tensor row = all_gather(parts[i].detach(), group);
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
  // A state tensor beside each shard, together; they stand in the order of the shards.
  std::map<std::string, std::vector<Tensor>> moments;
  std::vector<std::string> order;
  nn::NamedTensors state = optimizer.state();
  for (const auto &[name, tensor] : state) {
    std::optional<Numbered> of = numbered(name, shards.size());
    if (!of) {
      result.emplace_back(name, nn::init::copy_of(tensor, location));
    } else if (tensor.shape() == shards[of->index].shape()) {
      std::vector<Tensor> &parts = moments[of->prefix];
      if (parts.empty())
        order.push_back(of->prefix);
      parts.push_back(tensor);
    } else {
      // A number that all parameters of the shard have.
      Bucket bucket = buckets[of->index];
      for (size_t p = bucket.first; p < bucket.last; ++p)
        result.emplace_back(name_of(*of, p), nn::init::copy_of(tensor, location));
    }
  }
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
  nn::NamedTensors own;
  size_t used = 0;
  // The tensors of a bucket's parameters.
  auto of_bucket = [&](const Numbered &of) {
    std::vector<Tensor> tensors;
    for (size_t p = buckets[of.index].first; p < buckets[of.index].last; ++p) {
      auto found = given.find(name_of(of, p));
      if (found == given.end())
        refuse(ErrorKind::kValue, "there is no tensor for '" + name_of(of, p) + "'");
      tensors.push_back(found->second);
    }
    used += tensors.size();
    return tensors;
  };
  for (const auto &[name, tensor] : optimizer.state()) {
    std::optional<Numbered> of = numbered(name, shards.size());
    if (!of) {
      auto found = given.find(name);
      if (found == given.end())
        refuse(ErrorKind::kValue, "there is no tensor for '" + name + "'");
      own.emplace_back(name, found->second);
      ++used;
      continue;
    }
    if (tensor.shape() != shards[of->index].shape())
      continue; // a number: below
    std::vector<Tensor> tensors = of_bucket(*of);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor &parameter = parameters[buckets[of->index].first + i];
      if (tensors[i].shape() != parameter.shape() || tensors[i].dtype() != tensor.dtype())
        refuse(ErrorKind::kShape, "'" + name_of(*of, buckets[of->index].first + i) + "' is " +
                                      weft::name(tensors[i].dtype()) + " " +
                                      to_string(tensors[i].shape()) + ", the parameter's has " +
                                      weft::name(tensor.dtype()) + " " +
                                      to_string(parameter.shape()));
      tensors[i] = tensors[i].to(parameter.device());
    }
    own.emplace_back(name, part_of(tensors, {0, tensors.size()}));
  }
  // Numbers of single parameters: all of a shard have the same one, or none.
  for (size_t i = 0; i < buckets.size(); ++i) {
    Numbered of{"step.", i};
    if (!given.contains(name_of(of, buckets[i].first)))
      continue;
    std::vector<Tensor> tensors = of_bucket(of);
    for (const Tensor &tensor : tensors)
      if (tensor.item<double>(location) != tensors[0].item<double>(location))
        refuse(ErrorKind::kValue,
               "parameters " + std::to_string(buckets[i].first) + " to " +
                   std::to_string(buckets[i].last - 1) +
                   " took different numbers of steps, and lie in one shard, which has one");
    own.emplace_back(name_of(of, i), tensors[0]);
  }
  if (used != given.size() || given.size() != state.size())
    refuse(ErrorKind::kValue, std::to_string(state.size()) + " tensors are given, " +
                                  std::to_string(used) + " of them are the optimizer's");
  optimizer.load_state(own, location);
}

} // namespace weft::distributed
