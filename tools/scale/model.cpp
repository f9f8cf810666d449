#include "tools/scale/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::scale {
namespace {

// How many messages a rank sends one after the other, and how many bytes in all of them: the time
// of a call is linear in alpha and beta.
struct Traffic {
  double messages = 0, bytes = 0;
};

Traffic ring(Collective kind, double bytes, double n) {
  switch (kind) {
  case Collective::kAllReduce:
    return {2 * (n - 1), 2 * (n - 1) / n * bytes};
  case Collective::kReduceScatter:
    return {n - 1, (n - 1) / n * bytes};
  case Collective::kAllToAll:
    return {n - 1, (n - 1) / n * bytes};
  case Collective::kAllGather: // S is n times the operand
    return {n - 1, (n - 1) * bytes};
  case Collective::kBroadcast: // a scatter and an all_gather
    return {2 * (n - 1), 2 * (n - 1) / n * bytes};
  case Collective::kSendReceive:
    return {1, bytes};
  }
  return {};
}

Traffic direct(Collective kind, double bytes, double n) {
  const Traffic first{n - 1, (n - 1) * kFirstBytes};
  bool is_divided = kind == Collective::kReduceScatter || kind == Collective::kAllToAll;
  if ((is_divided ? bytes / n : bytes) <= kInlineBytes)
    return first;
  // A rank sends to all others what the ring's rounds send to one.
  Traffic data = ring(kind, bytes, n);
  return {first.messages + data.messages, first.bytes + data.bytes};
}

Traffic traffic_of(Collective kind, double bytes, int ranks, Algorithm algorithm) {
  if (ranks < 2)
    return {};
  return algorithm == Algorithm::kRing ? ring(kind, bytes, ranks) : direct(kind, bytes, ranks);
}

} // namespace

bool find_collective(const std::string &op, Collective &kind) {
  constexpr const char *names[] = {"weft.all_reduce", "weft.reduce_scatter", "weft.all_gather",
                                   "weft.all_to_all", "weft.broadcast_from", "weft.send_receive"};
  auto *found = std::find(std::begin(names), std::end(names), op);
  if (found == std::end(names))
    return false;
  kind = static_cast<Collective>(found - std::begin(names));
  return true;
}

double seconds_of(Collective kind, double bytes, int ranks, Network network, Algorithm algorithm) {
  Traffic traffic = traffic_of(kind, bytes, ranks, algorithm);
  return traffic.messages * network.seconds_per_message + traffic.bytes * network.seconds_per_byte;
}

std::vector<Part> with_buckets(std::vector<Part> step, double bytes) {
  std::vector<Part> result;
  std::vector<std::vector<size_t>> places(step.size()); // of each part, in the result
  std::vector<size_t> open;                             // exchanges that wait for more bytes
  double gathered = 0;
  auto close = [&](Part last) {
    double pieces = std::max(1.0, std::ceil(gathered / bytes));
    std::vector<size_t> made;
    last.bytes = gathered / pieces;
    for (double i = 0; i < pieces; ++i) {
      made.push_back(result.size());
      result.push_back(last);
    }
    for (size_t part : open)
      places[part] = made;
    open.clear();
    gathered = 0;
  };
  size_t last_gradient = step.size();
  for (size_t i = 0; i < step.size(); ++i)
    if (step[i].is_exchange && step[i].of_gradients)
      last_gradient = i;
  for (size_t i = 0; i < step.size(); ++i) {
    if (!step[i].is_exchange || !step[i].of_gradients) {
      places[i] = {result.size()};
      result.push_back(step[i]);
      continue;
    }
    open.push_back(i);
    gathered += step[i].bytes;
    if (gathered >= bytes || i == last_gradient)
      close(step[i]);
  }
  for (Part &part : result) {
    std::vector<Need> needs;
    for (Need need : std::exchange(part.needs, {}))
      for (size_t place : places[need.part])
        needs.push_back({place, need.steps_ago});
    part.needs = std::move(needs);
  }
  return result;
}

Timeline timeline_of(const std::vector<Part> &step, const Cluster &cluster) {
  constexpr size_t kSteps = 4; // what a step leaves behind has settled by then
  Timeline result;
  std::vector<std::vector<double>> ends; // of each step's parts
  double device = 0, wire = 0;           // when each is free
  double idle = 0, begin_of_last = 0, idle_before_last = 0;
  for (size_t n = 0; n < kSteps; ++n) {
    begin_of_last = device;
    idle_before_last = idle;
    result.exchange = result.computed = 0;
    ends.emplace_back();
    for (const Part &part : step) {
      double &free = part.is_exchange ? wire : device;
      double begin = part.is_exchange ? std::max(wire, device) : device;
      for (Need need : part.needs)
        if (need.steps_ago <= n)
          begin = std::max(begin, ends[n - need.steps_ago][need.part]);
      double takes = part.is_exchange ? seconds_of(part.kind, part.bytes, cluster.ranks,
                                                   cluster.network, cluster.algorithm)
                                      : part.seconds * cluster.slowdown;
      if (!part.is_exchange)
        idle += begin - free;
      free = begin + takes;
      ends.back().push_back(free);
      (part.is_exchange ? result.exchange : result.computed) += takes;
    }
    // A step that ends with an exchange which nothing waits for goes on behind the next one.
    device += cluster.host_seconds;
  }
  result.exposed = idle - idle_before_last;
  result.seconds = std::max(device - begin_of_last, result.exchange);
  return result;
}

Memory memory_of(const Model &model, Form form, int ranks) {
  const double p = model.parameter_bytes, n = ranks;
  switch (form) {
  case Form::kReplicated:
    return {p, model.moments * p, p, 0};
  case Form::kShardedOptimizer: // the optimizer's own copies of its part beside the whole ones
    return {p + p / n, model.moments * p / n, p + p / n, 0};
  case Form::kShardedParameters: // gathered are this layer's and the next one's
    return {p / n, model.moments * p / n, p / n + model.largest_layer_bytes,
            2 * model.largest_layer_bytes};
  }
  return {};
}

Network fit(const std::vector<Sample> &samples, int ranks) {
  // The normal equations of sum (1 - (messages alpha + bytes beta) / seconds)^2.
  double mm = 0, mb = 0, bb = 0, m = 0, b = 0;
  for (const Sample &sample : samples) {
    Traffic t = traffic_of(Collective::kAllReduce, sample.bytes, ranks, Algorithm::kDirect);
    double x = t.messages / sample.seconds, y = t.bytes / sample.seconds;
    mm += x * x, mb += x * y, bb += y * y, m += x, b += y;
  }
  double determinant = mm * bb - mb * mb;
  if (!(determinant > 0))
    return {};
  return {std::max(0.0, (m * bb - b * mb) / determinant),
          std::max(0.0, (b * mm - m * mb) / determinant)};
}

} // namespace weft::scale
