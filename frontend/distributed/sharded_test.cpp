// Parameters, gradients and moments in one part a rank: what a step gives, what it takes of memory,
// and what another number of ranks goes on from.
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

#include "tests/support/errors.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace weft::distributed {
namespace {

using testing_support::what_of;

using Values = std::vector<double>;

Values values_of(const std::vector<Tensor> &tensors) {
  Values values;
  for (const Tensor &tensor : tensors)
    for (double value : tensor.to_vector<double>())
      values.push_back(value);
  return values;
}
void expect_near(const Values &found, const Values &expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
}

// What ranks share in a test: rank 0 fills it.
template <typename T> class FromRank0 {
public:
  void put(T value) {
    if (world().rank() == 0)
      value_ = std::move(value);
  }
  T &get() {
    return value_;
  }

private:
  T value_;
};

// Of 12 rows: divides among 1, 2, 3, 4 ranks. Sizes that divide among none of them.
struct Task {
  nn::Sequential start{nn::Linear(5, 7), nn::LayerNorm(7), nn::Tanh(), nn::Linear(7, 3)};
  Tensor inputs = randn({12, 5}).eval(), targets = randint(0, 3, {12}).eval();

  // This rank's part of the batch.
  std::pair<Tensor, Tensor> part() const {
    int64_t rows = 12 / world().size(), first = rows * world().rank();
    return {inputs.narrow(0, first, rows).to(current_device()),
            targets.narrow(0, first, rows).to(current_device())};
  }
};

// What a checkpoint holds.
struct Saved {
  nn::NamedTensors model, optimizer;
};
// The mean of all ranks' losses.
double mean_loss(const Tensor &loss) {
  return all_reduce(loss.detach(), Reduction::kMean).item<float>();
}

// Steps of a sharded optimizer on so many ranks, from a checkpoint if there is one.
Values train_sharded(const Task &task, int ranks, int steps, Saved &saved) {
  FromRank0<Values> losses;
  FromRank0<Saved> after;
  run_ranks(ranks, [&] {
    nn::Sequential model = nn::to(task.start, current_device());
    if (!saved.model.empty())
      model.load_state(saved.model);
    ShardedParameters sharded(model.parameters());
    optim::AdamW optimizer(sharded.shards(), {.lr = 1e-2});
    if (!saved.optimizer.empty())
      sharded.load_whole_state(optimizer, saved.optimizer);
    auto [x, t] = task.part();
    Values found;
    for (int step = 0; step < steps; ++step) {
      Tensor loss = cross_entropy(model(x), t);
      loss.backward();
      sharded.reduce_gradients();
      optimizer.step();
      sharded.gather();
      found.push_back(mean_loss(loss));
    }
    nn::NamedTensors whole = sharded.whole_state(optimizer);
    EXPECT_EQ(whole.empty(), world().rank() != 0);
    // To memory that all ranks' devices read.
    after.put({nn::to(model, Device()).state(), whole});
    losses.put(found);
  });
  saved = after.get();
  return losses.get();
}

TEST(Sharded, CheckpointsGoOnOnAnotherNumberOfRanks) {
  Task task;
  Saved undisturbed;
  Values expected = train_sharded(task, 2, 9, undisturbed);
  for (auto [from, to, then] : {std::tuple{4, 2, 3}, {2, 3, 1}, {1, 4, 2}, {3, 1, 4}}) {
    SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
    Saved saved;
    Values losses;
    for (int ranks : {from, to, then})
      for (double loss : train_sharded(task, ranks, 3, saved))
        losses.push_back(loss);
    expect_near(losses, expected, 1e-5);
    ASSERT_EQ(saved.optimizer.size(), undisturbed.optimizer.size());
    for (size_t i = 0; i < saved.optimizer.size(); ++i) {
      EXPECT_EQ(saved.optimizer[i].first, undisturbed.optimizer[i].first);
      expect_near(values_of({saved.optimizer[i].second}),
                  values_of({undisturbed.optimizer[i].second}), 1e-4);
    }
  }
  // One process without ranks takes it, and goes on alike.
  Saved once;
  train_sharded(task, 4, 3, once);
  nn::Sequential model = nn::clone(task.start);
  model.load_state(once.model);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  optimizer.load_state(once.optimizer);
  Values losses;
  for (int step = 0; step < 3; ++step) {
    Tensor loss = cross_entropy(model(task.inputs), task.targets);
    model.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<float>());
  }
  expect_near(losses, {expected.begin() + 3, expected.begin() + 6}, 1e-5);
}

TEST(Sharded, StateThatDoesNotFitIsRefused) {
  run_ranks(2, [] {
    nn::Linear model(3, 2);
    ShardedParameters sharded(model.parameters());
    optim::AdamW optimizer(sharded.shards());
    nn::NamedTensors state = optim::AdamW(model.parameters()).state(), less = state, more = state,
                     other = state;
    less.pop_back();
    more.emplace_back("more", ones({}));
    for (auto &[name, tensor] : other)
      if (name == "exp_avg.0")
        tensor = ones({2});
    for (const auto &[given, part] :
         {std::pair{less, "there is no tensor for '"},
          {more, " are the optimizer's; it has no 'more'"},
          {other, "'exp_avg.0' is float32 [2], the parameter's has float32 [2, 3]"}}) {
      std::string error = what_of([&] { sharded.load_whole_state(optimizer, given); });
      EXPECT_NE(error.find(part), std::string::npos) << error;
      EXPECT_NE(error.find("sharded_test.cpp"), std::string::npos) << error;
    }
    sharded.load_whole_state(optimizer, state);
  });
}

// Two calls a step, whose gradients add up; dropout, whose samples come twice; layers without
// parameters; buffers.
TEST(ShardedLayers, AreDataParallel) {
  Task task;
  nn::Sequential start(nn::Linear(5, 8), nn::BatchNorm1d(8), nn::ReLU(), nn::Dropout(0.5),
                       nn::Linear(8, 3));
  auto train = [&](bool sharded) {
    std::map<int, std::pair<Values, Values>> found;
    std::mutex mutex;
    run_ranks(3, [&] {
      nn::Sequential model = nn::to(start, current_device());
      default_generator().set_state(Tensor::from(std::vector<int64_t>{7, 0}));
      auto [x, t] = task.part();
      x = x.clone().set_requires_grad();
      std::optional<ShardedLayers> layers;
      std::optional<DataParallel> replicas;
      if (sharded)
        layers.emplace(model.layers());
      else
        replicas.emplace(model.parameters());
      optim::AdamW optimizer(sharded ? layers->shards() : model.parameters(), {.lr = 1e-2});
      Values losses;
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        Tensor sum;
        for (int64_t half = 0; half < 2; ++half) {
          Tensor part = x.narrow(0, 2 * half, 2);
          Tensor loss =
              cross_entropy(sharded ? (*layers)(part) : model(part), t.narrow(0, 2 * half, 2));
          loss.backward();
          sum = half ? sum + loss.detach() : loss.detach();
        }
        sharded ? layers->reduce_gradients() : replicas->reduce_gradients();
        optimizer.step();
        losses.push_back(mean_loss(sum));
      }
      std::vector<Tensor> end = sharded ? layers->whole_parameters() : model.parameters();
      EXPECT_EQ(end.empty(), sharded && world().rank() != 0);
      if (sharded) {
        EXPECT_TRUE(std::isnan(model.parameters()[0].to_vector<float>()[0]));
        NoGrad no_grad;
        model.eval();
        EXPECT_EQ((*layers)(x).shape(), (Shape{4, 3}));
      }
      for (const auto &[name, buffer] : model.named_buffers())
        end.push_back(buffer);
      end.push_back(x.grad());
      std::lock_guard lock(mutex);
      found[world().rank()] = {losses, values_of(end)};
    });
    return found;
  };
  auto expected = train(false), layers = train(true);
  for (int rank = 0; rank < 3; ++rank)
    expect_near(layers[rank].first, expected[rank].first, 1e-4);
  expect_near(layers[0].second, expected[0].second, 1e-3);
}

// Its call of number `failing` ends by an exception, when it has drawn and written its buffers.
struct Failing : nn::Module {
  nn::BatchNorm1d norm = child("norm", nn::BatchNorm1d(3));
  nn::Linear linear = child("linear", nn::Linear(3, 3));
  std::shared_ptr<int> calls;
  int failing = 0;

  Tensor operator()(const Tensor &x) const {
    Tensor y = linear(norm(x)) * rand({3});
    if (++*calls == failing)
      throw std::runtime_error("enough");
    return y;
  }
};

// Backward computes a layer again for two calls, and fails in the second one: the first one's
// gradients do not count twice.
TEST(ShardedLayers, AFailedReductionIsTakenBackAndMadeAgain) {
  run_ranks(1, [] {
    Failing start;
    nn::Linear start_of_head(3, 2);
    Tensor data = randn({6, 3}).eval();
    // What is there before reduce_gradients() succeeds, and after it.
    auto train = [&](int failing) {
      Failing first = nn::clone(start);
      nn::Linear head = nn::clone(start_of_head);
      first.calls = std::make_shared<int>(0);
      first.failing = failing;
      default_generator().set_state(Tensor::from(std::vector<int64_t>{7, 0}));
      ShardedLayers layers({first, head});
      Tensor x = data.clone().set_requires_grad();
      for (int64_t half = 0; half < 2; ++half)
        layers(x.narrow(0, 3 * half, 3)).square().sum().backward();
      if (failing > 0) {
        EXPECT_THROW(layers.reduce_gradients(), std::runtime_error);
        for (const Tensor &parameter : first.parameters()) {
          EXPECT_TRUE(std::isnan(parameter.to_vector<float>()[0]));
          EXPECT_FALSE(parameter.grad().defined());
        }
      }
      std::vector<Tensor> buffers;
      for (const auto &[name, buffer] : first.named_buffers())
        buffers.push_back(buffer);
      std::vector<Values> found{values_of(buffers),
                                values_of({default_generator().state().to(float64)})};
      layers.reduce_gradients();
      found.push_back(values_of(buffers));
      std::vector<Tensor> gradients{x.grad()};
      for (const Tensor &shard : layers.shards())
        gradients.push_back(shard.grad());
      found.push_back(values_of(gradients));
      found.push_back(values_of({rand({4})}));
      return found;
    };
    std::vector<Values> expected = train(0), found = train(4);
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(i);
      expect_near(found[i], expected[i], 1e-6);
    }
  });
}

// Bytes of a rank's device: between steps, and at most.
struct Bytes {
  int64_t stay = 0, most = 0;
};
TEST(ShardedLayers, TakeTheirPartOfMemory) {
  constexpr int kRanks = 4, kLayers = 12;
  constexpr int64_t kWidth = 256, kWhole = kLayers * kWidth * (kWidth + 1) * 4;
  auto train = [&](bool sharded, int64_t expected) {
    std::vector<Bytes> bytes(kRanks);
    run_ranks(kRanks, [&] {
      int64_t before = memory_statistics(current_device()).live_bytes;
      auto live = [&] {
        return memory_statistics(current_device()).live_bytes - before;
      };
      nn::Sequential model;
      for (int i = 0; i < kLayers; ++i)
        model.append(nn::Linear(kWidth, kWidth));
      std::optional<ShardedLayers> layers;
      std::optional<DataParallel> replicas;
      if (sharded)
        layers.emplace(model.layers());
      else
        replicas.emplace(model.parameters());
      optim::AdamW optimizer(sharded ? layers->shards() : model.parameters());
      Tensor x = ones({2, kWidth}).eval();
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        (sharded ? (*layers)(x) : model(x)).square().mean().backward();
        sharded ? layers->reduce_gradients() : replicas->reduce_gradients();
        optimizer.step();
      }
      optimizer.zero_grad();
      eval(optimizer.parameters());
      // What a run has read goes a moment after it.
      for (int tries = 0; tries < 500 && live() > expected; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      bytes[world().rank()] = {live(), memory_statistics(current_device()).peak_bytes - before};
      barrier();
    });
    return bytes;
  };
  // Parameters and two moments; beside them stays what the largest program computes in, which is
  // about a layer. The devices' peaks are those since the start: the smaller first.
  std::vector<Bytes> part = train(true, 3 * kWhole * 30 / 100), whole = train(false, 3 * kWhole);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_GE(whole[rank].stay, 3 * kWhole);
    EXPECT_LE(part[rank].stay, 3 * kWhole * 30 / 100);
    EXPECT_LE(part[rank].most, whole[rank].most / 2);
  }
  std::printf("parameters and moments: %.3f of replicas' bytes; at most %.3f\n",
              double(part[0].stay) / double(3 * kWhole),
              double(part[0].most) / double(whole[0].most));
}

TEST(ShardedLayers, RefuseWhatTheyCannotDo) {
  run_ranks(1, [] {
    nn::Linear twice(3, 3);
    std::string error = what_of([&] { ShardedLayers layers({twice, nn::ReLU(), twice}); });
    EXPECT_NE(error.find("layer 2 has a parameter that a layer before it has"), std::string::npos)
        << error;
    error = what_of([&] { ShardedParameters shards({twice.weight, twice.bias, twice.weight}); });
    EXPECT_NE(error.find("parameter 2 is parameter 0, too"), std::string::npos) << error;
    ShardedLayers layers({twice, nn::ReLU()});
    (void)layers(ones({2, 3}));
    error = what_of([&] { layers.reduce_gradients(); });
    EXPECT_NE(error.find("no result of the layers has a gradient"), std::string::npos) << error;
    EXPECT_NE(error.find("sharded_test.cpp"), std::string::npos) << error;
    ShardedLayers kept = std::move(layers);
    ShardedParameters parameters(twice.parameters()), kept_parameters = std::move(parameters);
    for (const std::function<void()> &call : std::vector<std::function<void()>>{
             [&] { (void)layers.shards(); }, [&] { layers(ones({2, 3})); },
             [&] { layers.reduce_gradients(); }, [&] { layers.clip_grad_norm(1); },
             [&] { layers.whole_parameters(); }, [&] { (void)parameters.shards(); },
             [&] { parameters.reduce_gradients(); }, [&] { parameters.clip_grad_norm(1); },
             [&] { parameters.gather(); }}) {
      error = what_of(call);
      EXPECT_NE(error.find("was moved from"), std::string::npos) << error;
      EXPECT_NE(error.find("sharded_test.cpp"), std::string::npos) << error;
    }
  });
}

// Between trained ones, in each form: neither weight decay nor moments reach them.
TEST(Sharded, FrozenParametersStayBitForBit) {
  Task task;
  const std::vector<size_t> frozen = {1, 2, 5};
  enum class Form { kReplicas, kParameters, kLayers };
  auto train = [&](Form form) {
    FromRank0<std::vector<Values>> found;
    run_ranks(2, [&] {
      nn::Sequential model = nn::to(task.start, current_device());
      std::vector<Tensor> parameters = model.parameters();
      for (size_t i : frozen)
        parameters[i].set_requires_grad(false);
      std::optional<DataParallel> replicas;
      std::optional<ShardedParameters> shards;
      std::optional<ShardedLayers> layers;
      std::vector<Tensor> trained = parameters;
      if (form == Form::kReplicas)
        replicas.emplace(parameters);
      else if (form == Form::kParameters)
        trained = shards.emplace(parameters).shards();
      else
        trained = layers.emplace(model.layers()).shards();
      optim::AdamW optimizer(trained, {.lr = 0.1, .weight_decay = 0.5});
      auto [x, t] = task.part();
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        cross_entropy(layers ? (*layers)(x) : model(x), t).backward();
        replicas ? replicas->reduce_gradients()
        : shards ? shards->reduce_gradients()
                 : layers->reduce_gradients();
        optimizer.step();
        if (shards)
          shards->gather();
      }
      std::vector<Values> values;
      for (const Tensor &each : layers ? layers->whole_parameters() : parameters)
        values.push_back(values_of({each}));
      found.put(values);
      // What was frozen is known to checkpoints, as one process has it.
      if (!replicas) {
        nn::NamedTensors state =
            layers ? layers->whole_state(optimizer) : shards->whole_state(optimizer);
        optim::AdamW alone(nn::clone(task.start).parameters());
        if (world().rank() == 0)
          alone.load_state(state);
        parameters[0].set_requires_grad(false);
        std::string error =
            what_of([&] { layers ? layers->reduce_gradients() : shards->reduce_gradients(); });
        EXPECT_NE(error.find("parameter 0, float32 [7, 5], requires no gradient now"),
                  std::string::npos)
            << error;
        EXPECT_NE(error.find("sharded_test.cpp"), std::string::npos) << error;
      }
    });
    return found.get();
  };
  std::vector<Values> expected = train(Form::kReplicas);
  for (Form form : {Form::kParameters, Form::kLayers}) {
    std::vector<Values> found = train(form);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      expect_near(found[i], expected[i], 1e-4);
    for (size_t i : frozen)
      EXPECT_EQ(found[i], values_of({task.start.parameters()[i]})) << i;
  }
}

TEST(Sharded, GradientsAreClippedByTheNormOfAllRanks) {
  Task task;
  constexpr double kMost = 0.1;
  auto steps = [&](optim::Optimizer &optimizer, const std::function<Tensor()> &loss,
                   const std::function<Tensor()> &clip) {
    Values norms;
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss().backward();
      norms.push_back(clip().item<float>());
      optimizer.step();
    }
    return norms;
  };
  nn::Sequential model = nn::clone(task.start);
  optim::AdamW alone(model.parameters(), {.lr = 1e-2});
  Values expected = steps(
      alone, [&] { return cross_entropy(model(task.inputs), task.targets); },
      [&] { return optim::clip_grad_norm(model.parameters(), kMost); });
  EXPECT_GT(expected[0], 2 * kMost); // it clips
  Values end = values_of(model.parameters());
  for (bool by_layers : {false, true}) {
    SCOPED_TRACE(by_layers);
    run_ranks(3, [&] {
      nn::Sequential own = nn::to(task.start, current_device());
      std::optional<ShardedParameters> shards;
      std::optional<ShardedLayers> layers;
      optim::AdamW optimizer(by_layers ? layers.emplace(own.layers()).shards()
                                       : shards.emplace(own.parameters()).shards(),
                             {.lr = 1e-2});
      auto [x, t] = task.part();
      auto loss = [&, x = x, t = t] {
        if (shards)
          shards->gather();
        return cross_entropy(layers ? (*layers)(x) : own(x), t);
      };
      Values norms = steps(optimizer, loss, [&] {
        layers ? layers->reduce_gradients() : shards->reduce_gradients();
        return layers ? layers->clip_grad_norm(kMost) : shards->clip_grad_norm(kMost);
      });
      expect_near(norms, expected, 1e-5);
      for (Reduction extreme : {Reduction::kMin, Reduction::kMax})
        EXPECT_EQ(all_reduce(Tensor::from(norms), extreme).to_vector<double>(), norms);
      if (shards)
        shards->gather();
      Values found = values_of(layers ? layers->whole_parameters() : own.parameters());
      if (world().rank() == 0)
        expect_near(found, end, 1e-4);
    });
  }
}

// No forward uses b: one process counts none of its steps, a shard those of all that lie in it.
TEST(Sharded, TakeTheStateOfAParameterThatWasNeverUsed) {
  run_ranks(2, [] {
    auto start = [](double value) {
      return full({3}, value).set_requires_grad();
    };
    const optim::AdamWOptions options{.lr = 0.1};
    Tensor a = start(2), b = start(1);
    optim::AdamW before({a, b}, options);
    auto step = [&](const Tensor &loss) {
      before.zero_grad();
      loss.backward();
      before.step();
    };
    step(a.square().sum());
    step(a.square().sum());
    auto copy_of = [](const Tensor &x) {
      return x.detach().clone().set_requires_grad();
    };
    Tensor c = copy_of(a), d = copy_of(b);
    ShardedParameters sharded({c, d});
    optim::AdamW optimizer(sharded.shards(), options);
    sharded.load_whole_state(optimizer, before.state());
    c.square().sum().backward();
    sharded.reduce_gradients();
    optimizer.step();
    sharded.gather();
    step(a.square().sum());
    expect_near(values_of({c}), values_of({a}), 1e-6);
    // Both took steps, but not as many.
    step(a.square().sum() + b.sum());
    std::string error = what_of([&] { sharded.load_whole_state(optimizer, before.state()); });
    EXPECT_NE(error.find("parameter 0 took 4 steps, parameter 1 1, and they lie in one shard"),
              std::string::npos)
        << error;
  });
}

// On each rank by itself.
TEST(Sharded, AParameterWithoutAGradientCountsAsOneOfZeros) {
  run_ranks(2, [] {
    bool is_first = world().rank() == 0;
    Tensor a = ones({2}).set_requires_grad(), b = ones({2}).set_requires_grad();
    ShardedParameters parameters({a, b});
    ((is_first ? a * b : a) * 4).sum().backward();
    parameters.reduce_gradients();
    // a's elements are the first rank's part, b's the second one's.
    EXPECT_EQ(parameters.shards()[0].grad().to_vector<float>(),
              is_first ? (std::vector<float>{4, 4}) : (std::vector<float>{2, 2}));
  });
}

} // namespace
} // namespace weft::distributed
