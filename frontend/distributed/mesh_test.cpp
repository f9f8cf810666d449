// Tensors that are cut over a mesh of ranks: what is computed of them is what one process computes
// of whole ones.
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

#include "tests/support/errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace weft::distributed {
namespace {

using testing_support::what_of;

Tensor here(const Tensor &x) {
  return x.to(current_device());
}

void expect_near(const Tensor &found, const Tensor &expected, const std::string &what,
                 double tolerance = 1e-5) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  std::vector<double> a = found.to_vector<double>(), b = expected.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << what << " at " << i;
}

Mesh two_by_two() {
  return Mesh({{"data", 2}, {"model", 2}});
}

TEST(Mesh, RanksStandInRowMajorOrder) {
  run_ranks(6, [] {
    Mesh mesh({{"data", 3}, {"model", 2}});
    EXPECT_EQ(mesh.size("data"), 3);
    EXPECT_EQ(mesh.size("model"), 2);
    EXPECT_EQ(mesh.rank("data"), world().rank() / 2);
    EXPECT_EQ(mesh.rank("model"), world().rank() % 2);
    EXPECT_EQ(mesh.group("model").size(), 2);
    Tensor sum =
        all_reduce(full({1}, world().rank(), DType::kFloat32), Reduction::kSum, mesh.group("data"));
    EXPECT_EQ(sum.item<float>(), static_cast<float>(world().rank() % 2 * 3 + 6));
  });
}

TEST(Mesh, APartIsCutAndPutTogether) {
  Tensor all = arange(0, 48, 1, DType::kFloat32).reshape({4, 6, 2}).eval();
  run_ranks(4, [&] {
    Mesh mesh = two_by_two();
    Tensor x = shard(here(all), mesh, {"model", "data", ""});
    EXPECT_EQ(x.shape(), Shape({4, 6, 2}));
    EXPECT_EQ(axes_of(x), AxisNames({"model", "data", ""}));
    Tensor part = local_part(x);
    EXPECT_EQ(part.shape(), Shape({2, 3, 2}));
    expect_near(part,
                here(all).narrow(0, 2 * mesh.rank("model"), 2).narrow(1, 3 * mesh.rank("data"), 3),
                "part");
    expect_near(whole(x), all, "whole");
    expect_near(whole(from_parts(part, mesh, {"model", "data", ""})), all, "from_parts");
    // Axes that change places, or go to a dim that is free.
    expect_near(whole(shard(x, mesh, {"data", "model", ""})), all, "exchanged");
    expect_near(whole(shard(x, mesh, {"", "data", "model"})), all, "moved");
    expect_near(local_part(shard(x, mesh, {"", "data", "model"})),
                here(all).narrow(1, 3 * mesh.rank("data"), 3).narrow(2, mesh.rank("model"), 1),
                "moved part");
    EXPECT_EQ(axes_of(whole(x)), AxisNames({"", "", ""}));
  });
}

// A function of two tensors, [8, 12] and [12, 6], and how they are cut.
struct Case {
  const char *name;
  std::function<Tensor(const Tensor &, const Tensor &)> function;
};
const Case kCases[] = {
    {"matmul", [](const Tensor &x, const Tensor &y) { return matmul(x, y); }},
    {"linear", [](const Tensor &x, const Tensor &y) { return tanh(matmul(x, y)) + x.sum(); }},
    {"softmax of columns",
     [](const Tensor &x, const Tensor &y) { return softmax(x, 0).matmul(y); }},
    {"softmax of rows", [](const Tensor &x, const Tensor &y) { return softmax(x, 1).matmul(y); }},
    {"mean and variance",
     [](const Tensor &x, const Tensor &) { return x.var({1}) + x.mean({0}).sum(); }},
    {"extremes",
     [](const Tensor &x, const Tensor &y) { return x.max({0}).sum() + y.min({1}).sum(); }},
    {"product", [](const Tensor &x, const Tensor &) { return x.prod(0); }},
    {"views",
     [](const Tensor &x, const Tensor &y) {
       return x.t().reshape({3, 4, 8}).narrow(0, 1, 2).sum({0}) + y.flip({0}).sum();
     }},
    {"heads",
     [](const Tensor &x, const Tensor &) {
       return x.reshape({8, 4, 3}).transpose(0, 1).matmul(x.reshape({8, 4, 3}).permute({1, 2, 0}));
     }},
    {"concat",
     [](const Tensor &x, const Tensor &y) { return cat({x, y.t().sum({0}, true) + x}, 0); }},
    {"scan", [](const Tensor &x, const Tensor &) { return cumsum(x, 1) * cumsum(x, 0); }},
    {"sort", [](const Tensor &x, const Tensor &) { return topk(x, 3, 1).first; }},
    {"norms", [](const Tensor &x, const Tensor &y) { return layer_norm(x, {12}) + y.norm(); }},
    {"choice",
     [](const Tensor &x, const Tensor &y) {
       return where(x > 0, x, y.sum()) + index_select(x, 1, tensor<int64_t>({3, 11, 0})).sum();
     }},
    {"loss",
     [](const Tensor &x, const Tensor &) {
       return cross_entropy(x, tensor<int64_t>({1, 5, 11, 0, 3, 7, 6, 2}));
     }},
};

TEST(Mesh, CutOrWholeTheResultsAndGradientsAreTheSame) {
  manual_seed(5);
  Tensor x = (randn({8, 12}) * 0.5 + 1).eval(), y = randn({12, 6}).eval();
  const std::pair<AxisNames, AxisNames> cuts[] = {
      {{"data", ""}, {"", ""}},          {{"", "model"}, {"model", ""}},
      {{"data", "model"}, {"", "data"}}, {{"model", "data"}, {"model", "data"}},
      {{"", ""}, {"data", "model"}},     {{"", "data"}, {"", "model"}},
  };
  run_ranks(4, [&] {
    Mesh mesh = two_by_two();
    for (const Case &each : kCases) {
      Tensor a = here(x).requires_grad_(), b = here(y).requires_grad_();
      Tensor expected = each.function(a, b);
      Tensor weight =
          cos(arange(0, expected.numel(), 1, DType::kFloat32)).reshape(expected.shape());
      (expected * weight).sum().backward();
      for (const auto &[of_x, of_y] : cuts) {
        std::string what = std::string(each.name) + " x(" + of_x[0] + "," + of_x[1] + ") y(" +
                           of_y[0] + "," + of_y[1] + ")";
        Tensor p = shard(here(x), mesh, of_x).detach().requires_grad_(),
               q = shard(here(y), mesh, of_y).detach().requires_grad_();
        Tensor found = each.function(p, q);
        expect_near(whole(found), expected, what, 2e-5);
        (found * weight).sum().backward();
        for (auto [cut, all, axes] : {std::tuple(p, a, of_x), std::tuple(q, b, of_y)}) {
          ASSERT_EQ(cut.grad().defined(), all.grad().defined()) << what;
          if (!all.grad().defined())
            continue;
          EXPECT_EQ(axes_of(cut.grad()), axes) << what;
          expect_near(whole(cut.grad()), all.grad(), "gradient of " + what, 1e-4);
        }
      }
    }
  });
}

// Attention by heads, an embedding by vocabulary, layers by columns and by rows.
struct Block : nn::Module {
  nn::Embedding embedding = child("embedding", nn::Embedding(10, 8));
  nn::LayerNorm norm = child("norm", nn::LayerNorm(8));
  nn::Linear query = child("query", nn::Linear(8, 8));
  nn::Linear key = child("key", nn::Linear(8, 8));
  nn::Linear value = child("value", nn::Linear(8, 8));
  nn::Linear joined = child("joined", nn::Linear(8, 8));
  nn::Linear up = child("up", nn::Linear(8, 16));
  nn::Linear down = child("down", nn::Linear(16, 8));
  nn::Linear head = child("head", nn::Linear(8, 10));

  Tensor operator()(const Tensor &tokens) const {
    Tensor x = embedding(tokens), n = norm(x);
    auto heads = [&](const nn::Linear &layer) {
      Tensor made = layer(n);
      return made.reshape({made.size(0), made.size(1), 2, 4}).transpose(1, 2);
    };
    Tensor mixed = scaled_dot_product_attention(heads(query), heads(key), heads(value), Tensor(),
                                                {.causal = true});
    x = x + joined(mixed.transpose(1, 2).reshape(x.shape()));
    return head(x + down(gelu(up(x))));
  }
};
const ShardingRules kRules = {
    {"embedding.weight", {"model", ""}},
    {"query.weight", {"model", ""}},
    {"query.bias", {"model"}},
    {"key.weight", {"model", ""}},
    {"key.bias", {"model"}},
    {"value.weight", {"model", ""}},
    {"value.bias", {"model"}},
    {"joined.weight", {"", "model"}},
    {"up.weight", {"model", ""}},
    {"up.bias", {"model"}},
    {"down.weight", {"", "model"}},
    {"head.weight", {"model", ""}},
    {"head.bias", {"model"}},
};

std::vector<double> losses_of(const Block &block,
                              const std::function<Tensor(const Tensor &)> &place,
                              const Tensor &tokens, const Tensor &targets) {
  optim::AdamW optimizer(block.parameters(), {.lr = 0.01});
  std::vector<double> losses;
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    Tensor logits = block(place(tokens));
    Tensor loss = cross_entropy(logits.reshape({-1, 10}), targets.reshape({-1}));
    loss.backward();
    optim::clip_grad_norm(block.parameters(), 1.0);
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(Mesh, ATransformerTrainsAsInOneProcess) {
  manual_seed(3);
  Block alone;
  nn::NamedTensors start;
  for (const auto &[name, tensor] : alone.state())
    start.emplace_back(name, tensor.detach().clone().eval());
  Tensor tokens = randint(0, 10, {4, 6}).eval(), targets = randint(0, 10, {4, 6}).eval();
  std::vector<double> expected =
      losses_of(alone, [](const Tensor &x) { return x; }, tokens, targets);
  EXPECT_LT(expected.back(), expected.front());
  run_ranks(4, [&] {
    Mesh mesh = two_by_two();
    Block block;
    block.load_state(start);
    shard(block, mesh, kRules);
    EXPECT_EQ(local_part(block.up.weight).shape(), Shape({8, 8}));
    std::vector<double> found = losses_of(
        block, [&](const Tensor &x) { return shard(here(x), mesh, {"data", ""}); }, tokens,
        here(targets));
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
    for (const auto &[name, tensor] : block.state()) {
      const auto known =
          std::find_if(start.begin(), start.end(),
                       [&, &name = name](const auto &each) { return each.first == name; });
      ASSERT_NE(known, start.end());
      EXPECT_EQ(whole(tensor).shape(), known->second.shape());
    }
    EXPECT_EQ(axes_of(block.up.weight), AxisNames({"model", ""}));
    EXPECT_EQ(axes_of(block.up.weight.grad()), AxisNames({"model", ""}));
  });
}

TEST(Mesh, ImagesAreCutByBatchAndByChannels) {
  manual_seed(6);
  Tensor images = randn({4, 4, 6, 6}).eval(), kernels = randn({8, 2, 3, 3}).eval();
  auto network = [](const Tensor &x, const Tensor &w) {
    Tensor y = relu(conv2d(x, w, Tensor(), {.padding = 1, .groups = 2}));
    return group_norm(max_pool2d(y, 2), 4) + avg_pool2d(y, 2);
  };
  const std::pair<AxisNames, AxisNames> cuts[] = {
      {{"data", "", "", ""}, {"model", "", "", ""}},
      {{"data", "model", "", ""}, {"", "", "", ""}},
      {{"", "", "model", ""}, {"", "data", "", ""}},
      {{"model", "data", "", ""}, {"data", "", "", ""}},
  };
  run_ranks(4, [&] {
    Mesh mesh = two_by_two();
    Tensor a = here(images).requires_grad_(), b = here(kernels).requires_grad_();
    Tensor expected = network(a, b);
    expected.square().sum().backward();
    for (const auto &[of_x, of_w] : cuts) {
      Tensor x = shard(here(images), mesh, of_x).detach().requires_grad_(),
             w = shard(here(kernels), mesh, of_w).detach().requires_grad_();
      Tensor found = network(x, w);
      std::string what = of_x[0] + "," + of_x[1] + "," + of_x[2] + " " + of_w[0] + "," + of_w[1];
      expect_near(whole(found), expected, what, 2e-5);
      found.square().sum().backward();
      expect_near(whole(x.grad()), a.grad(), "images' gradient " + what, 1e-4);
      expect_near(whole(w.grad()), b.grad(), "kernels' gradient " + what, 1e-4);
    }
  });
}

// The exchanges that ranks did since `before`, a rank's.
std::vector<std::string> exchanged_since(uint64_t before, int ranks) {
  std::vector<std::string> names;
  for (const Evaluation &each : recent_evaluations())
    if (each.number > before && each.exchange.starts_with("weft."))
      names.push_back(each.exchange.substr(0, each.exchange.find(' ')));
  std::sort(names.begin(), names.end());
  std::vector<std::string> own;
  for (size_t i = 0; i < names.size(); i += static_cast<size_t>(ranks))
    own.push_back(names[i]);
  return own;
}

TEST(Mesh, AGradientIsScatteredWhereItsParameterIsCut) {
  Tensor rows = (arange(0, 32, 1, DType::kFloat32).reshape({8, 4}) / 10).eval();
  uint64_t before = recent_evaluations().empty() ? 0 : recent_evaluations().back().number;
  run_ranks(2, [&] {
    Mesh mesh({{"data", 2}});
    Tensor w = shard(here(rows).narrow(0, 0, 4), mesh, {"", "data"}).detach().requires_grad_();
    Tensor x = shard(here(rows), mesh, {"data", ""});
    matmul(x, w).tanh().sum().backward();
    EXPECT_EQ(axes_of(w.grad()), AxisNames({"", "data"}));
    w.grad().eval();
  });
  // The weight goes to all ranks, and its gradient comes back in parts.
  EXPECT_EQ(
      exchanged_since(before, 2),
      std::vector<std::string>({"weft.all_gather", "weft.all_reduce", "weft.reduce_scatter"}));
}

uint64_t last_evaluation() {
  return recent_evaluations().empty() ? 0 : recent_evaluations().back().number;
}

// Gradients of parameters, of which each rank has the whole: by one row, or (a function of the
// user's looks at each) one by one.
TEST(Mesh, GradientsOfWholeParametersTravelTogether) {
  manual_seed(8);
  Tensor rows = randn({8, 4}).eval(), aims = randn({8, 3}).eval();
  std::vector<Tensor> start;
  for (const Shape &shape : {Shape{6, 4}, {6}, {5, 6}, {5}, {3, 5}, {3}})
    start.push_back((randn(shape) * 0.5).eval());
  // Three steps' losses and last gradients.
  auto train = [&](const Tensor &x, const Tensor &y, bool looks) {
    std::vector<Tensor> w;
    for (const Tensor &tensor : start) {
      w.push_back(here(tensor).clone().requires_grad_());
      if (looks)
        w.back().register_hook([](const Tensor &) {});
    }
    optim::SGD optimizer(w, {.lr = 0.1});
    std::vector<Tensor> results;
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      Tensor hidden = tanh(linear(tanh(linear(x, w[0], w[1])), w[2], w[3]));
      Tensor loss = (linear(hidden, w[4], w[5]) - y).square().mean();
      loss.backward();
      optimizer.step();
      results.push_back(loss.detach());
    }
    for (const Tensor &each : w)
      results.push_back(each.grad());
    eval(results);
    return results;
  };
  std::vector<Tensor> expected = train(rows, aims, false);
  for (bool looks : {false, true}) {
    uint64_t before = last_evaluation();
    std::vector<std::vector<float>> found(expected.size());
    run_ranks(2, [&] {
      Mesh mesh({{"data", 2}});
      Tensor x = shard(here(rows), mesh, {"data", ""}), y = shard(here(aims), mesh, {"data", ""});
      std::vector<Tensor> own = train(x, y, looks), alone = train(x, y, !looks);
      for (size_t i = 0; i < own.size(); ++i) {
        expect_near(own[i], here(expected[i]), "result " + std::to_string(i));
        // A sum has the same bits wherever in a row it stands.
        EXPECT_EQ(own[i].to_vector<float>(), alone[i].to_vector<float>()) << i;
      }
    });
    // Of each step the loss, and in one of the two trainings one row, in the other six gradients.
    EXPECT_EQ(exchanged_since(before, 2).size(), size_t(3 * (1 + 1) + 3 * (1 + 6))) << looks;
  }
}

// What one rank alone reads in a hook starts what that rank has recorded, and changes nothing of
// what ranks exchange.
TEST(Mesh, ARankThatReadsInAHookExchangesTheSameRows) {
  manual_seed(8);
  Tensor rows = randn({8, 4}).eval(), aims = randn({8, 3}).eval();
  std::vector<Tensor> start;
  for (const Shape &shape : {Shape{6, 4}, {6}, {3, 6}, {3}})
    start.push_back((randn(shape) * 0.5).eval());
  auto gradients = [&](const Tensor &x, const Tensor &y, const std::function<void()> &look) {
    std::vector<Tensor> w, found;
    for (const Tensor &tensor : start)
      w.push_back(here(tensor).clone().requires_grad_());
    Tensor hidden = tanh(linear(x, w[0], w[1]));
    hidden.register_hook([look](const Tensor &) { look(); });
    (linear(hidden, w[2], w[3]) - y).square().mean().backward();
    for (const Tensor &each : w)
      found.push_back(each.grad());
    eval(found);
    return found;
  };
  std::vector<Tensor> expected = gradients(rows, aims, [] {});
  run_ranks(2, [&] {
    Mesh mesh({{"data", 2}});
    Tensor x = shard(here(rows), mesh, {"data", ""}), y = shard(here(aims), mesh, {"data", ""});
    int reads = 0;
    std::vector<Tensor> found = gradients(x, y, [&] {
      if (mesh.rank("data") == 0)
        reads += static_cast<int>((ones({3}) * 2).sum().item<float>());
    });
    EXPECT_EQ(reads, mesh.rank("data") == 0 ? 6 : 0);
    for (size_t i = 0; i < found.size(); ++i)
      expect_near(found[i], here(expected[i]), "gradient " + std::to_string(i));
  });
}

TEST(Mesh, RowsOfGradientsAreBounded) {
  // Five parameters of 400 KiB, and one of more than a row has.
  const int64_t narrow = 100 << 10, wide = 300 << 10;
  uint64_t before = last_evaluation();
  run_ranks(2, [&] {
    Mesh mesh({{"data", 2}});
    std::vector<Tensor> w;
    Tensor loss = zeros({});
    for (int64_t size : {narrow, narrow, wide, narrow, narrow, narrow}) {
      w.push_back(ones({size}).requires_grad_());
      loss = loss + (shard(ones({8, size}), mesh, {"data", ""}) * w.back()).sum();
    }
    loss.backward();
    for (const Tensor &each : w)
      EXPECT_EQ((each.grad() - 8).abs().max().item<double>(), 0);
  });
  std::vector<int64_t> bytes;
  for (const Evaluation &each : recent_evaluations())
    if (each.number > before && each.exchanged_bytes > 4)
      bytes.push_back(each.exchanged_bytes);
  std::sort(bytes.begin(), bytes.end());
  const int64_t one = narrow * 4, row = 2 * one, alone = wide * 4;
  EXPECT_EQ(bytes, std::vector<int64_t>({one, one, row, row, row, row, alone, alone}));
}

// A row is on its way as soon as it is full, and not after all else that ranks exchange.
TEST(Mesh, RowsOfGradientsDoNotWaitForTheEnd) {
  const int64_t width = 512, batch = 1024; // a part of a weight has half of a row's bound
  uint64_t before = last_evaluation();
  run_ranks(4, [&] {
    Mesh mesh = two_by_two();
    auto weight = [&](const AxisNames &axes) {
      return shard(full({width, width}, 1.0 / width, DType::kFloat32), mesh, axes)
          .detach()
          .requires_grad_();
    };
    std::vector<Tensor> weights, gradients;
    Tensor x = shard(ones({batch, width}), mesh, {"data", ""});
    for (int layer = 0; layer < 4; ++layer) {
      weights.push_back(weight({"model", ""}));
      weights.push_back(weight({"", "model"}));
      x = linear(tanh(linear(x, weights[2 * layer])), weights[2 * layer + 1]);
    }
    x.square().mean().backward();
    for (const Tensor &each : weights)
      gradients.push_back(each.grad());
    eval(gradients);
  });
  // Of each rank, in order.
  std::map<std::string, std::vector<std::string>> exchanges;
  for (const Evaluation &each : recent_evaluations())
    if (each.number > before && !each.exchange.empty())
      exchanges[each.device].push_back(each.exchange);
  EXPECT_EQ(exchanges.size(), 4u);
  for (const auto &[device, own] : exchanges) {
    auto of = [&](const char *text) {
      return [text](const std::string &each) { return each.find(text) != std::string::npos; };
    };
    EXPECT_EQ(std::ranges::count_if(own, of("gradients of")), 4) << device;
    auto row = std::ranges::find_if(own, of("gradients of"));
    EXPECT_GE(std::count_if(row, own.end(), of("world/model")), 2) << device;
  }
}

// Words are cut over the batch; the table not at all, by rows, or by columns.
TEST(Mesh, AnEmbeddingsGradientIsAddedUpOfRowsThatARankHas) {
  manual_seed(11);
  Tensor table = randn({6, 4}).eval(), words = randint(0, 6, {8, 6}).eval(),
         weights = randn({8, 6, 4}).eval();
  Tensor alone = table.clone().requires_grad_();
  (embedding(words, alone) * weights).sum().backward();
  // With the loss, and what whole() gathers.
  const std::string sum = "weft.all_reduce", all = "weft.all_gather";
  const std::pair<AxisNames, std::vector<std::string>> cases[] = {
      {{"", ""}, {sum, sum}},
      {{"data", ""}, {all, all, sum, "weft.reduce_scatter"}},
      {{"model", ""}, {all, all, sum, sum}},
      {{"", "model"}, {all, sum, sum, sum}},
  };
  for (const auto &[axes, exchanges] : cases) {
    std::string what = "table (" + axes[0] + "," + axes[1] + ")";
    uint64_t before = last_evaluation();
    run_ranks(4, [&, &axes = axes] {
      Mesh mesh = two_by_two();
      Tensor x = shard(here(table), mesh, axes).detach().requires_grad_();
      Tensor w = shard(here(words), mesh, {"data", ""});
      (embedding(w, x) * here(weights)).sum().backward();
      EXPECT_EQ(axes_of(x.grad()), axes) << what;
      expect_near(whole(x.grad()), alone.grad(), what);
    });
    EXPECT_EQ(exchanged_since(before, 4), exchanges) << what;
  }
}

TEST(Mesh, BatchNormCountsTheWholeBatch) {
  manual_seed(4);
  Tensor images = randn({4, 3, 5, 5}).eval();
  nn::BatchNorm2d alone(3);
  Tensor expected = alone(images).eval();
  run_ranks(2, [&] {
    Mesh mesh({{"data", 2}});
    nn::BatchNorm2d norm(3);
    Tensor found = norm(shard(here(images), mesh, {"data", "", "", ""}));
    EXPECT_EQ(axes_of(found), AxisNames({"data", "", "", ""}));
    expect_near(whole(found), expected, "batch_norm");
    expect_near(norm.named_buffers()[0].second, alone.named_buffers()[0].second, "running mean");
  });
}

TEST(Mesh, WritesKeepTheCut) {
  Tensor all = arange(0, 16, 1, DType::kFloat32).reshape({4, 4}).eval();
  run_ranks(2, [&] {
    Mesh mesh({{"model", 2}});
    Tensor x = shard(here(all), mesh, {"model", ""});
    x += 1;
    x.narrow(0, 1, 2) *= here(all).narrow(0, 0, 2);
    x.copy_(x * 2 + here(all));
    EXPECT_EQ(axes_of(x), AxisNames({"model", ""}));
    Tensor y = here(all).clone();
    y += 1;
    y.narrow(0, 1, 2) *= here(all).narrow(0, 0, 2);
    y.copy_(y * 2 + here(all));
    expect_near(whole(x), y, "written");
    // A whole storage stays whole.
    Tensor z = here(all).clone();
    z += x;
    EXPECT_EQ(axes_of(z), AxisNames({"", ""}));
    expect_near(z, here(all) + y, "whole");
  });
}

TEST(Mesh, AJittedFunctionIsCalledAsItIs) {
  Tensor all = arange(0, 16, 1, DType::kFloat32).reshape({4, 4}).eval();
  run_ranks(2, [&] {
    Mesh mesh({{"model", 2}});
    Tensor x = shard(here(all), mesh, {"model", ""});
    auto f = jit([](const Tensor &a) { return tanh(a).sum({1}) * 2; });
    expect_near(whole(f(x.t())), tanh(here(all).t()).sum({1}) * 2, "jit of a view");
    for (const Tensor &input : {x, x.t()})
      EXPECT_NE(what_of([&] {
                  trace([](const Tensor &a) { return a + 1; }, {input});
                }).find("a program holds no exchange between ranks"),
                std::string::npos);
    for (int i = 0; i < 3; ++i) {
      Tensor y = f(x);
      EXPECT_EQ(axes_of(y), AxisNames({"model"}));
      expect_near(whole(y), tanh(here(all)).sum({1}) * 2, "jit");
    }
  });
}

// A gradient that is whole, of a parameter that is cut along two axes: which one it is summed over
// says along which it is scattered.
TEST(Mesh, AGradientIsScatteredAlongTheAxisOfItsSum) {
  manual_seed(7);
  Tensor all = randn({4, 4}).eval(), rows = randn({4, 4}).eval();
  run_ranks(4, [&] {
    Mesh mesh = two_by_two();
    Tensor expected = here(all).requires_grad_();
    matmul(here(rows), expected).square().sum().backward();
    for (const char *axis : {"data", "model"}) {
      Tensor w = shard(here(all), mesh, {"data", "model"}).detach().requires_grad_();
      matmul(shard(here(rows), mesh, {axis, ""}), whole(w)).square().sum().backward();
      EXPECT_EQ(axes_of(w.grad()), AxisNames({"data", "model"}));
      expect_near(whole(w.grad()), expected.grad(), axis, 1e-5);
      expect_near(whole(grad({shard(w * w, mesh, {"", "model"}).sum()}, {w})[0]), here(all) * 2,
                  "grad()");
    }
  });
}

// What a rank reads by itself changes nothing of what the ranks exchange.
TEST(Mesh, ARankMayReadItsPartAlone) {
  Tensor all = arange(0, 16, 1, DType::kFloat32).reshape({4, 4}).eval();
  run_ranks(2, [&] {
    Mesh mesh({{"data", 2}});
    Tensor x = shard(here(all) + 1, mesh, {"data", ""});
    if (world().rank() == 0)
      EXPECT_EQ(local_part(x).to_vector<float>().size(), 8u);
    expect_near(whole(x), here(all) + 1, "read by one rank");
  });
}

TEST(Mesh, WhatBelongsToAParameterIsCutAsItIs) {
  Tensor rows = (arange(0, 32, 1, DType::kFloat32).reshape({8, 4}) / 10).eval();
  run_ranks(2, [&] {
    Mesh mesh({{"model", 2}});
    manual_seed(1);
    nn::Linear layer(4, 6);
    shard(layer, mesh, {{"weight", {"model", ""}}, {"bias", {"model"}}});
    optim::Adam optimizer(layer.parameters(), {.lr = 0.1});
    layer(here(rows)).square().sum().backward();
    optimizer.step();
    int moments = 0;
    for (const auto &[name, tensor] : optimizer.state())
      if (tensor.ndim() == 2) {
        EXPECT_EQ(axes_of(tensor), AxisNames({"model", ""})) << name;
        ++moments;
      }
    EXPECT_EQ(moments, 2);
    // A gradient that somebody gives is cut, too.
    layer.weight.set_grad(ones({6, 4}));
    EXPECT_EQ(axes_of(layer.weight.grad()), AxisNames({"model", ""}));
    nn::Linear narrow = nn::to(layer, DType::kBFloat16);
    EXPECT_EQ(axes_of(narrow.weight), AxisNames({"model", ""}));
    expect_near(whole(narrow.weight), whole(layer.weight), "bfloat16", 1e-2);
  });
}

TEST(Mesh, AveragesAreCutAsTheirParametersAre) {
  Tensor rows = (arange(0, 32, 1, DType::kFloat32).reshape({8, 4}) / 10).eval();
  run_ranks(2, [&] {
    Mesh mesh({{"model", 2}});
    Tensor all = here(rows), cut = shard(here(rows), mesh, {"model", ""});
    optim::ExponentialMovingAverage expected({all}, 0.5), found({cut}, 0.5);
    EXPECT_EQ(axes_of(found.averages()[0]), AxisNames({"model", ""}));
    for (int step = 0; step < 2; ++step) {
      for (Tensor parameter : {all, cut})
        parameter *= 3;
      expected.update();
      found.update();
    }
    expect_near(whole(found.averages()[0]), expected.averages()[0], "average");
    expected.swap();
    found.swap();
    expect_near(whole(cut), all, "swapped");
    // A checkpoint is of whole tensors.
    found.load_state({{"average.0", ones({8, 4})}});
    EXPECT_EQ(axes_of(found.averages()[0]), AxisNames({"model", ""}));
    expect_near(whole(found.averages()[0]), ones({8, 4}), "loaded");
  });
}

TEST(Mesh, AnAxisOfOneRankExchangesNothing) {
  Tensor rows = (arange(0, 32, 1, DType::kFloat32).reshape({8, 4}) / 10).eval();
  uint64_t before = recent_evaluations().empty() ? 0 : recent_evaluations().back().number;
  run_ranks(1, [&] {
    Mesh mesh({{"data", 1}, {"model", 1}});
    Tensor x = shard(here(rows), mesh, {"data", "model"}).detach().requires_grad_();
    Tensor y = softmax(matmul(x, shard(here(rows).t(), mesh, {"model", ""})), 1);
    y.square().sum().backward();
    expect_near(whole(x), here(rows), "whole");
    Tensor a = here(rows).requires_grad_();
    softmax(matmul(a, here(rows).t()), 1).square().sum().backward();
    expect_near(whole(x.grad()), a.grad(), "gradient");
    Tensor same = here(rows);
    shard(same, mesh, {"data", ""}).eval();
    EXPECT_EQ(axes_of(same), AxisNames({"", ""})); // the caller's tensor stays what it was
  });
  EXPECT_TRUE(exchanged_since(before, 1).empty());
}

TEST(Mesh, ErrorsSayWhatToDo) {
  run_ranks(2, [] {
    EXPECT_NE(what_of([] {
                Mesh mesh({{"data", 3}});
              }).find("the axes have 3 places together, and the group has 2 ranks"),
              std::string::npos);
    EXPECT_NE(what_of([] {
                Mesh mesh({{"data", 2}, {"data", 1}});
              }).find("two axes have the name 'data'"),
              std::string::npos);
    Mesh mesh({{"data", 2}}), other({{"data", 2}});
    Tensor x = zeros({4, 3});
    auto refused = [&](const std::function<void()> &call, const std::string &text) {
      std::string what = what_of(call);
      EXPECT_NE(what.find(text), std::string::npos) << what;
      EXPECT_NE(what.find("mesh_test.cpp"), std::string::npos) << what;
    };
    refused([&] { shard(x, mesh, {"", "data"}); }, "dim 1 of x, float32 [4, 3]");
    refused([&] { shard(x, mesh, {"data"}); }, "axes has 1 of its dims");
    refused([&] { shard(x, mesh, {"rows", ""}); }, "the mesh has no axis 'rows'; it has data");
    refused([&] { shard(zeros({2, 2}), mesh, {"data", "data"}); }, "stands twice");
    Tensor cut = shard(x, mesh, {"data", ""});
    refused([&] { cut.to_vector<float>(); }, "cut over (data, -), of which this rank has");
    refused([&] { (void)cut.data<float>(); }, "distributed::whole(x)");
    refused([&] { cut + shard(x, other, {"data", ""}); }, "are cut over two meshes");
    nn::Linear layer(2, 4);
    refused([&] { shard(layer, mesh, {{"wieght", {"data", ""}}}); }, "fits no name");
    refused([&] { shard(layer, mesh, {{"*", {"data", ""}}}); }, "(x is bias)");
    EXPECT_EQ(axes_of(layer.weight), AxisNames({"", ""})); // nothing was cut
    Mesh left({{"data", 2}}), kept = std::move(left);
    refused([&] { left.group("data"); }, "group: the mesh was moved from");
    refused([&] { (void)left.size("data"); }, "size: the mesh was moved from");
    refused([&] { (void)left.rank("data"); }, "rank: the mesh was moved from");
    refused([&] { shard(x, left, {"data", ""}); }, "shard: the mesh was moved from");
    // The program goes on.
    expect_near(whole(cut + 1), x + 1, "after errors");
  });
}

} // namespace
} // namespace weft::distributed
