// The character GPT's step on ranks that share each batch: the median and the best time of a step,
// and the loss. Usage: ranks BATCH STEPS, alone or started by tools/launch.sh.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "examples/char_gpt/model.h"
#include "weft/data/random.h"
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

namespace {

constexpr int64_t kVocabulary = 86, kWarmup = 5;

weft::Tensor tokens(int64_t batch, int64_t context, uint64_t seed) {
  weft::data::SplitMix64 random(seed);
  std::vector<int64_t> ids(static_cast<size_t>(batch * context));
  for (int64_t &id : ids)
    id = static_cast<int64_t>(random.below(kVocabulary));
  return weft::Tensor::from(ids, {batch, context});
}

} // namespace

int main(int argc, char **argv) {
  int64_t batch = argc > 1 ? std::atoll(argv[1]) : 16, steps = argc > 2 ? std::atoll(argv[2]) : 40;
  bool is_rank = std::getenv("WORLD_SIZE") != nullptr;
  weft::distributed::Group ranks;
  if (is_rank)
    ranks = weft::distributed::init();
  int rank = is_rank ? ranks.rank() : 0, size = is_rank ? ranks.size() : 1;
  char_gpt::CharGpt model(char_gpt::ModelSizes{.vocabulary = kVocabulary});
  weft::optim::AdamW optimizer(model.parameters(),
                               {.lr = 1e-3, .beta2 = 0.99, .weight_decay = 0.1});
  int64_t context = model.sizes().context, rows = batch / size;
  weft::Tensor input = tokens(batch, context, 1).narrow(0, rank * rows, rows),
               target = tokens(batch, context, 2).narrow(0, rank * rows, rows);
  std::optional<weft::distributed::DataParallel> replicas;
  if (is_rank) {
    replicas.emplace(model.parameters(), ranks);
    weft::default_generator().set_part(rank, size);
  }
  std::vector<double> times;
  float loss_value = 0;
  for (int64_t step = 0; step < kWarmup + steps; ++step) {
    auto start = std::chrono::steady_clock::now();
    weft::Tensor loss = weft::nn::cross_entropy(model(input), target);
    optimizer.zero_grad();
    loss.backward();
    if (replicas)
      replicas->reduce_gradients();
    weft::optim::clip_grad_norm(optimizer.parameters(), 1.0);
    optimizer.step();
    loss_value = loss.item<float>();
    // All of the step, not the loss alone.
    weft::synchronize();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  times.erase(times.begin(), times.begin() + kWarmup);
  std::sort(times.begin(), times.end());
  if (rank == 0)
    std::printf("%d rank%s: median step %.2f ms, best %.2f ms, loss %.4f\n", size,
                size == 1 ? "" : "s", times[times.size() / 2], times.front(), loss_value);
  return 0;
}
