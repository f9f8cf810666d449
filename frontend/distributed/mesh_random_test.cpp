// Samples for tensors that are cut over a mesh: those that one process draws, of which a rank draws
// its part alone.
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/system_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace weft::distributed {
namespace {

uint64_t last_evaluation() {
  return recent_evaluations().empty() ? 0 : recent_evaluations().back().number;
}

struct Case {
  const char *name;
  std::function<Tensor(const Tensor &, Generator &)> draw;
};
const Case kCases[] = {
    {"dropout", [](const Tensor &x, Generator &g) { return dropout(x, 0.3, true, g); }},
    {"rand_like", [](const Tensor &x, Generator &g) { return rand_like(x, g) + x; }},
    {"randn_like", [](const Tensor &x, Generator &g) { return randn_like(x, g) * x; }},
    {"bernoulli", [](const Tensor &x, Generator &g) { return bernoulli(x, g); }},
};

TEST(MeshRandom, ARankDrawsItsPartOfWhatOneProcessDraws) {
  const Shape sizes = {8, 96, 160}; // parts of rows end within blocks of samples
  Generator start(7);
  Tensor all = rand(sizes, start).eval();
  std::vector<std::vector<float>> expected, gradients;
  for (const Case &each : kCases) {
    Generator generator(3);
    Tensor x = all.clone().requires_grad_(), y = each.draw(x, generator);
    expected.push_back(y.to_vector<float>());
    if (y.requires_grad())
      (y * y).sum().backward();
    gradients.push_back(x.grad().defined() ? x.grad().to_vector<float>() : std::vector<float>());
  }
  const AxisNames cuts[] = {{"data", "", ""},
                            {"", "", "model"},
                            {"", "model", "data"},
                            {"data", "model", ""},
                            {"model", "", "data"}};
  for (const AxisNames &axes : cuts) {
    uint64_t before = last_evaluation(), drawn = 0;
    run_ranks(4, [&] {
      Mesh mesh({{"data", 2}, {"model", 2}});
      std::vector<Tensor> results, inputs;
      for (const Case &each : kCases) {
        Generator generator(3);
        inputs.push_back(shard(all.to(current_device()), mesh, axes).detach().requires_grad_());
        results.push_back(each.draw(inputs.back(), generator).eval());
        if (results.back().requires_grad())
          (results.back() * results.back()).sum().backward();
        if (inputs.back().grad().defined())
          inputs.back().grad().eval();
      }
      barrier();
      if (world().rank() == 0)
        drawn = last_evaluation();
      barrier();
      for (size_t i = 0; i < std::size(kCases); ++i) {
        std::string what =
            std::string(kCases[i].name) + " (" + axes[0] + "," + axes[1] + "," + axes[2] + ")";
        EXPECT_EQ(axes_of(results[i]), axes) << what;
        EXPECT_EQ(whole(results[i]).to_vector<float>(), expected[i]) << what;
        Tensor gradient = inputs[i].grad();
        EXPECT_EQ(gradient.defined() ? whole(gradient).to_vector<float>() : std::vector<float>(),
                  gradients[i])
            << what;
      }
    });
    // No program had room for more than its part of the results, and of what backward reads.
    int64_t part = all.nbytes();
    for (const std::string &axis : axes)
      part /= axis.empty() ? 1 : 2;
    size_t programs = 0;
    for (const Evaluation &each : recent_evaluations())
      if (each.number > before && each.number <= drawn && each.exchange.empty() &&
          each.kernels > 0) {
        ++programs;
        EXPECT_LE(each.planned_peak_bytes, 2 * part + 1024) << each.to_string();
      }
    EXPECT_GE(programs, 4 * std::size(kCases));
  }
}

// Of a model that no rank has room for.
TEST(MeshRandom, AModelIsMadeInParts) {
  auto make = [] {
    return nn::Sequential(nn::Linear(2048, 1024), nn::Embedding(1000, 2048));
  };
  manual_seed(4);
  nn::NamedTensors expected = make().state();
  manual_seed(4); // of all devices
  run_ranks(4, [&] {
    Device own = current_device();
    // Each of the two tensors has 8 MiB, and a rank 2 MiB of it.
    set_allocator(std::make_shared<runtime::LimitAllocator>(
                      std::make_shared<runtime::SystemAllocator>(), int64_t(6) << 20),
                  own);
    {
      Mesh mesh({{"data", 2}, {"model", 2}});
      nn::Sequential model = make();
      shard(model, mesh, {{"*.bias", {"model"}}, {"*.weight", {"data", "model"}}});
      nn::NamedTensors state = model.state();
      for (size_t i = 0; i < state.size(); ++i) {
        Tensor part = local_part(state[i].second), all = expected[i].second;
        if (all.ndim() == 2)
          all = all.narrow(0, mesh.rank("data") * part.size(0), part.size(0))
                    .narrow(1, mesh.rank("model") * part.size(1), part.size(1));
        else
          all = all.narrow(0, mesh.rank("model") * part.size(0), part.size(0));
        EXPECT_EQ(part.to_vector<float>(), all.to_vector<float>()) << state[i].first;
      }
    }
    barrier();
    set_allocator(nullptr, own);
  });
}

} // namespace
} // namespace weft::distributed
