// A training of several ranks with a checkpoint, and something that goes wrong in it.
//   fault_program FOLDER FAULT RANK
// It prints the loss of each step, goes on from FOLDER/checkpoint.safetensors where that is, and
// writes it after every second step. FAULT happens on rank RANK in step 5 of the first start:
//   none, memory   (the device's memory is too small for what follows)
//   disk           (files may not grow as large as a checkpoint)
//   killed, error
//   absent         (killed in every start: it cannot come back)
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/system_allocator.h"
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

namespace {

using namespace weft;

constexpr int64_t kSteps = 10, kFaultyStep = 5;

int number(const char *name) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

void go_wrong(const std::string &fault) {
  if (fault == "memory") {
    set_allocator(std::make_shared<runtime::LimitAllocator>(
        std::make_shared<runtime::SystemAllocator>(), int64_t(4) << 10));
  } else if (fault == "disk") {
    rlimit small = {1 << 10, 1 << 10};
    std::signal(SIGXFSZ, SIG_IGN); // a write fails instead
    setrlimit(RLIMIT_FSIZE, &small);
  } else if (fault == "killed" || fault == "absent") {
    std::raise(SIGKILL);
  } else if (fault == "error") {
    throw Error(ErrorKind::kValue, "something is wrong with the data of this step");
  }
}

nn::NamedTensors part_of(const io::SafeTensors &saved, const std::string &prefix) {
  nn::NamedTensors part;
  for (const auto &[name, tensor] : saved.tensors)
    if (name.starts_with(prefix))
      part.emplace_back(name.substr(prefix.size()), tensor);
  return part;
}

void train(const std::string &folder, const std::string &fault, int faulty_rank) {
  distributed::Group world = distributed::init();
  bool faulty = world.rank() == faulty_rank && (fault == "absent" || number("WEFT_RESTART") == 0);
  manual_seed(1);
  Tensor points = randn({120, 16}), targets = points.square().sum(1, true);
  nn::Sequential model(nn::Linear(16, 64), nn::Tanh(), nn::Linear(64, 1));
  data::DataLoader loader(
      data::TensorDataset(points, targets),
      {.batch_size = 24, .shuffle = true, .rank = world.rank(), .ranks = world.size()});
  std::string path = folder + "/checkpoint.safetensors";
  std::optional<io::SafeTensors> saved;
  if (std::filesystem::exists(path))
    saved = io::load_safetensors(path);
  if (saved)
    model.load_state(part_of(*saved, "model."));
  distributed::ShardedParameters sharded(model.parameters());
  optim::Adam optimizer(sharded.shards(), {.lr = 1e-2});
  int64_t step = 0;
  if (saved) {
    sharded.load_whole_state(optimizer, part_of(*saved, "optimizer."));
    step = std::stoll(saved->metadata.at("step"));
    loader.restore({.epoch = std::stoll(saved->metadata.at("epoch")),
                    .batch = std::stoll(saved->metadata.at("batch"))});
  }
  while (step < kSteps) {
    auto [input, target] = loader.next();
    if (++step == kFaultyStep && faulty)
      go_wrong(fault);
    Tensor loss = (model(input) - target).square().mean();
    loss.backward();
    sharded.reduce_gradients();
    optimizer.step();
    sharded.gather();
    double mean =
        distributed::all_reduce(loss.detach(), distributed::Reduction::kMean).item<float>();
    if (world.rank() == 0) {
      std::printf("step %2lld  loss %.7f\n", static_cast<long long>(step), mean);
      std::fflush(stdout);
    }
    if (step % 2 == 0) {
      nn::NamedTensors tensors;
      for (const auto &[name, tensor] : model.state())
        tensors.emplace_back("model." + name, tensor);
      for (const auto &[name, tensor] : sharded.whole_state(optimizer))
        tensors.emplace_back("optimizer." + name, tensor);
      if (world.rank() == 0)
        io::save_safetensors(path, tensors,
                             {{"step", std::to_string(step)},
                              {"epoch", std::to_string(loader.state().epoch)},
                              {"batch", std::to_string(loader.state().batch)}});
    }
  }
  distributed::barrier();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  try {
    train(argv[1], argv[2], std::atoi(argv[3]));
    return 0;
  } catch (const std::exception &error) {
    distributed::end_job(error);
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
