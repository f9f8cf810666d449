// What weft::jit, weft::trace and a program mean: what the plain call means. Each test fails where
// a write, an alias or a gradient gets lost on the way.
#include <algorithm>
#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "tests/support/errors.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Floats = std::vector<float>;

Floats values(const Tensor &x) {
  return x.to_vector<float>();
}

TEST(ProgramResults, ThatAliasAnInputAreNotTheInput) {
  Tensor x = ones({4096}).eval();
  Program p = trace([](const Tensor &a) { return a.reshape({64, 64}); }, {x});
  Tensor y = p.run({x})[0], again = p.run({x})[0];
  y += 1;
  y.eval();
  EXPECT_EQ(x.sum().item<float>(), 4096.f);
  EXPECT_EQ(again.sum().item<float>(), 4096.f);
  EXPECT_EQ(y.sum().item<float>(), 8192.f);
  // And the other way round.
  x += 5;
  x.eval();
  EXPECT_EQ(again.sum().item<float>(), 4096.f);
}

TEST(ProgramResults, ThatAreTwiceTheSameAreTwoTensors) {
  Program p = trace(
      [](const Tensor &a) {
        Tensor y = a * 2;
        return std::vector<Tensor>{y, y.reshape({2, 2}), y};
      },
      {zeros({4})});
  std::vector<Tensor> results = p.run({ones({4})});
  results[0] += 1;
  results[0].eval();
  EXPECT_EQ(values(results[1]), (Floats{2, 2, 2, 2}));
  EXPECT_EQ(values(results[2]), (Floats{2, 2, 2, 2}));
}

TEST(JitResults, ThatAreCapturedTensorsAreTensorsOfTheirOwn) {
  Tensor c = ones({8}).eval();
  auto f = jit([&](const Tensor &) { return c; });
  Tensor z = f(zeros({1}));
  z += 1;
  z.eval();
  EXPECT_EQ(values(c), Floats(8, 1.f));
  EXPECT_EQ(values(f(zeros({1}))), Floats(8, 1.f));
  c += 2;
  EXPECT_EQ(values(f(zeros({1}))), Floats(8, 3.f));
}

TEST(JitResults, ThatAliasArgumentsOrConstantsAreNotThem) {
  auto f = jit([](const Tensor &x) {
    return std::vector<Tensor>{x.reshape({2, 4}), x, full({3}, 7), x.narrow(0, 0, 8)};
  });
  for (int call = 0; call < 2; ++call) {
    Tensor x = ones({8}).eval();
    std::vector<Tensor> results = f(x);
    for (Tensor &result : results) {
      result += 1;
      result.eval();
    }
    EXPECT_EQ(values(x), Floats(8, 1.f));
    EXPECT_EQ(values(results[0]), Floats(8, 2.f));
    EXPECT_EQ(values(results[2]), Floats(3, 8.f));
  }
}

TEST(JitGradients, ReachCapturedParameters) {
  Tensor w = tensor({2.f, 3.f}).set_requires_grad();
  auto plain = [&](const Tensor &x) {
    return (x * w).sum();
  };
  auto f = jit(plain);
  Tensor x = tensor({5.f, 7.f});
  for (int call = 0; call < 3; ++call) {
    w.zero_grad();
    (f(x) + (w * w).sum()).backward();
    EXPECT_EQ(values(w.grad()), (Floats{5 + 4, 7 + 6})) << call;
  }
  // Without history there is one program.
  NoGrad no_grad;
  uint64_t before = statistics().replays;
  f(x), f(x), f(x);
  EXPECT_EQ(statistics().replays - before, 2u);
  EXPECT_FALSE(f(x).requires_grad());
}

TEST(JitGradients, OfParametersThatAreFrozenLater) {
  Tensor w = tensor({2.f}).set_requires_grad(), v = tensor({3.f}).set_requires_grad();
  auto f = jit([&](const Tensor &x) { return x * w * v; });
  EXPECT_TRUE(f(ones({1})).requires_grad());
  w.set_requires_grad(false);
  v.set_requires_grad(false);
  uint64_t before = statistics().replays;
  EXPECT_FALSE(f(ones({1})).requires_grad());
  EXPECT_EQ(f(ones({1})).item<float>(), 6.f);
  EXPECT_EQ(statistics().replays - before, 1u);
}

TEST(JitGradients, AddUpAsInPlainCalls) {
  auto run = [](bool replayed) {
    Tensor w = tensor({2.f, -1.f}).set_requires_grad();
    auto step = [&](const Tensor &x) {
      (square(w) * x).sum().backward();
    };
    auto fast = jit(step);
    std::vector<Floats> seen;
    for (int i = 0; i < 6; ++i) {
      if (i == 4)
        w.zero_grad();
      replayed ? fast(full({2}, i)) : step(full({2}, i));
      seen.push_back(values(w.grad()));
    }
    return seen;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(JitGradients, AreReadWhereTheyAreAtTheCall) {
  Tensor w = tensor({1.f}).set_requires_grad();
  auto update = jit([&]() {
    NoGrad no_grad;
    w -= w.grad() * 0.5;
    w.zero_grad();
  });
  Floats seen;
  for (int i = 1; i <= 3; ++i) {
    (w * float(i)).sum().backward(); // another gradient tensor at each turn
    update();
    EXPECT_FALSE(w.grad().defined());
    seen.push_back(w.item<float>());
  }
  EXPECT_EQ(seen, (Floats{0.5f, -0.5f, -2.f}));
}

TEST(JitWrites, ReachArguments) {
  auto plain = [](const Tensor &x) {
    Tensor y = x;
    y += 1;
    return y * 10;
  };
  auto f = jit(plain);
  for (int call = 0; call < 3; ++call) {
    Tensor x = full({4}, call).eval(), kept = x.clone();
    EXPECT_EQ(values(f(x)), Floats(4, 10.f * (call + 1)));
    EXPECT_EQ(values(x), Floats(4, call + 1.f));
    EXPECT_EQ(values(kept), Floats(4, float(call)));
  }
  // Through a view the tensor behind it is written.
  Tensor base = zeros({3, 4}).eval();
  f(base[1]);
  EXPECT_EQ(values(base), (Floats{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(JitWrites, ReachArgumentsThatAreOneTensor) {
  auto plain = [](const Tensor &a, const Tensor &b) {
    Tensor x = a;
    x += 1;
    return a * 100 + b;
  };
  auto f = jit(plain);
  for (int call = 0; call < 2; ++call) {
    Tensor x = ones({2}), y = ones({2});
    EXPECT_EQ(values(f(x, x)), values(plain(y, y)));
    EXPECT_EQ(values(x), values(y));
    Tensor a = ones({2}), b = ones({2});
    EXPECT_EQ(values(f(a, b)), (Floats{201, 201}));
    EXPECT_EQ(values(b), (Floats{1, 1}));
    // Views of one tensor.
    Tensor base = ones({4}), twin = ones({4});
    EXPECT_EQ(values(f(base.narrow(0, 0, 2), base.narrow(0, 1, 2))),
              values(plain(twin.narrow(0, 0, 2), twin.narrow(0, 1, 2))));
    EXPECT_EQ(values(base), values(twin));
  }
}

TEST(JitWrites, ReachArgumentsThatAreCapturedToo) {
  Tensor state = ones({2});
  auto f = jit([&](const Tensor &x) {
    state += 1;
    return x + state;
  });
  EXPECT_EQ(values(f(full({2}, 5))), (Floats{7, 7}));
  EXPECT_EQ(values(f(state)), (Floats{6, 6}));
  EXPECT_EQ(values(f(full({2}, 5))), (Floats{9, 9}));
}

TEST(JitWrites, OfOneStorageIntoAnother) {
  Tensor a = tensor({1.f}), b = tensor({2.f});
  auto rotate = jit([&](const Tensor &x) {
    Tensor old = a.clone();
    a.copy_(b);
    b.copy_(x);
    return old;
  });
  EXPECT_EQ(rotate(tensor({3.f})).item<float>(), 1.f);
  EXPECT_EQ(rotate(tensor({4.f})).item<float>(), 2.f);
  EXPECT_EQ(a.item<float>(), 3.f);
  EXPECT_EQ(b.item<float>(), 4.f);
}

TEST(JitWrites, KeepStoragesApartThatShareAValueAtFirst) {
  Tensor w = tensor({1.f, 2.f}).eval(), average = w.clone();
  auto f = jit([&](const Tensor &x) {
    w += x;
    average *= 0.5;
    average += w * 0.5;
    return average * 1;
  });
  Tensor w2 = tensor({1.f, 2.f}).eval(), average2 = w2.clone();
  for (int i = 0; i < 3; ++i) {
    Tensor x = full({2}, i + 1);
    w2 += x;
    average2 *= 0.5;
    average2 += w2 * 0.5;
    EXPECT_EQ(values(f(x)), values(average2));
    EXPECT_EQ(values(w), values(w2));
  }
}

TEST(JitCalls, FollowTrainingAndEvaluation) {
  nn::Dropout dropout(0.5);
  auto f = jit([&](const Tensor &x) { return dropout(x); });
  Tensor x = ones({64});
  EXPECT_NE(values(f(x)), values(x));
  dropout.eval();
  EXPECT_EQ(values(f(x)), values(x));
  dropout.train();
  EXPECT_NE(values(f(x)), values(x));
}

// A function that leaves things as it found them does so from where it was recorded only.
TEST(JitCalls, LeaveTrainingAsTheCallWould) {
  for (bool at_first : {true, false}) {
    nn::Dropout dropout(0.5);
    auto f = jit([&](const Tensor &x) {
      dropout.eval();
      Tensor y = dropout(x);
      dropout.train(at_first);
      return y;
    });
    for (bool before : {at_first, !at_first, at_first, !at_first}) {
      dropout.train(before);
      EXPECT_EQ(values(f(ones({4}))), (Floats{1, 1, 1, 1}));
      EXPECT_EQ(dropout.training(), at_first);
    }
  }
}

TEST(JitCalls, LeaveLeavesAsTheCallWould) {
  Tensor p = ones({2}).set_requires_grad(), x = full({2}, 3.f);
  auto thawed = [&](const Tensor &x) {
    p.set_requires_grad(false);
    Tensor y = (p * x).sum();
    p.set_requires_grad(true);
    return y;
  };
  auto turned = [&](const Tensor &x) {
    p.set_requires_grad(!p.requires_grad());
    return (p.detach() * x).sum();
  };
  using Function = std::function<Tensor(const Tensor &)>;
  for (auto [f, turns] :
       {std::pair(Function(jit(thawed)), false), std::pair(Function(jit(turned)), true)})
    for (bool before : {true, false, true, true, false}) {
      p.set_requires_grad(before);
      Tensor y = f(x);
      EXPECT_EQ(y.item<float>(), 6.f);
      EXPECT_FALSE(y.requires_grad());
      EXPECT_EQ(p.requires_grad(), !turns || !before);
    }
  // Parameters that nobody has read yet, and views of such.
  nn::Linear linear(2, 2);
  auto frozen = jit([&](const Tensor &x) {
    for (Tensor &each : linear.parameters())
      each.set_requires_grad(false);
    return linear(x);
  });
  Tensor view = linear.weight.detach();
  auto of_view = jit([&](const Tensor &x) {
    view.set_requires_grad(true);
    return x * 2;
  });
  for (int64_t call = 0; call < 3; ++call) {
    linear.weight.set_requires_grad(true);
    frozen(x);
    EXPECT_FALSE(linear.weight.requires_grad());
    view.set_requires_grad(false);
    of_view(x);
    EXPECT_TRUE(view.requires_grad());
  }
  EXPECT_THROW(trace(turned, {x}), Error);
  EXPECT_EQ(p.requires_grad(), true);
  // The function's own views are none of them.
  int64_t recorded = 0;
  auto own = jit([&](const Tensor &x) {
    ++recorded;
    Tensor q = p.detach().set_requires_grad();
    return grad({(q * x).sum()}, {q})[0];
  });
  for (int64_t call = 0; call < 3; ++call)
    EXPECT_EQ(values(own(x)), values(x));
  EXPECT_EQ(recorded, 1);
  // What changes nothing is no such change, from where it was recorded.
  int64_t calls = 0;
  auto marked = jit([&](const Tensor &x) {
    ++calls;
    p.set_requires_grad(true);
    return (p.detach() * x).sum();
  });
  p.set_requires_grad(true);
  marked(x);
  marked(x);
  EXPECT_EQ(calls, 1);
  p.set_requires_grad(false);
  EXPECT_EQ(marked(x).item<float>(), 6.f);
  EXPECT_TRUE(p.requires_grad());
}

TEST(JitCalls, DrawFromTheSeedThatWasSet) {
  auto f = jit([](const Tensor &x) { return x + rand({4}); });
  Tensor x = zeros({4});
  f(x);
  manual_seed(11);
  Floats replayed = values(f(x));
  manual_seed(11);
  EXPECT_EQ(replayed, values(x + rand({4})));
}

struct Batch {
  Tensor x, y;
  int power = 1;
};
void visit_tensors(Batch &batch, TensorVisitor &visit) {
  visit(batch.x)(batch.y)(batch.power);
}

TEST(JitCalls, TakeAndGiveWhatHoldsTensors) {
  int calls = 0;
  auto f = jit([&](const Batch &batch, const std::vector<Tensor> &more, double scale) {
    ++calls;
    Tensor x = batch.x;
    for (int i = 1; i < batch.power; ++i)
      x = x * batch.x;
    for (const Tensor &each : more)
      x = x + each;
    return std::map<std::string, Batch>{{"scaled", {x * scale, batch.y, batch.power + 1}}};
  });
  Batch batch{tensor({2.f}), tensor({7.f}), 3};
  auto result = f(batch, {ones({1}), ones({1})}, 0.5);
  EXPECT_EQ(result.at("scaled").x.item<float>(), 5.f);
  EXPECT_EQ(result.at("scaled").y.item<float>(), 7.f);
  EXPECT_EQ(result.at("scaled").power, 4);
  batch.x = tensor({3.f});
  result = f(batch, {ones({1}), ones({1})}, 0.5);
  EXPECT_EQ(result.at("scaled").x.item<float>(), 14.5f);
  EXPECT_EQ(calls, 1);
  // Numbers and lengths are part of what is recorded.
  EXPECT_EQ(f(batch, {ones({1})}, 0.5).at("scaled").x.item<float>(), 14.f);
  EXPECT_EQ(f(batch, {ones({1})}, 2).at("scaled").x.item<float>(), 56.f);
  batch.power = 1;
  EXPECT_EQ(f(batch, {ones({1})}, 2).at("scaled").x.item<float>(), 8.f);
  EXPECT_EQ(calls, 4);
}

// The programs that jitted functions hold.
int64_t recordings() {
  for (const CacheState &each : caches())
    if (each.name == "jit programs")
      return each.entries;
  return -1;
}

nn::Linear filled(double value) {
  nn::Linear layer(2, 1, {.bias = false});
  nn::init::constant_(layer.weight, value);
  return layer;
}

// A new module gets the memory of one that is gone, again and again.
TEST(JitModules, AreNotTakenForOnesThatAreGone) {
  int calls = 0;
  auto f = jit([&](const nn::Linear &layer, const Tensor &x) {
    ++calls;
    return layer(x);
  });
  NoGrad no_grad;
  Tensor x = ones({1, 2});
  int64_t before = recordings();
  for (int i = 0; i < 20; ++i) {
    nn::Linear layer = filled(i), handle = layer;
    EXPECT_EQ(f(layer, x).item<float>(), 2.f * i);
    EXPECT_EQ(f(handle, x).item<float>(), 2.f * i);
    EXPECT_EQ(calls, i + 1) << "handles of one module share what was recorded";
    EXPECT_EQ(recordings(), before + 1) << "nothing is kept for those that are gone";
  }
  // Those that were used last.
  std::list<nn::Linear> kept;
  for (int i = 0; i < 20; ++i) {
    if (kept.size() == 3)
      kept.pop_front();
    kept.push_back(filled(i));
    EXPECT_EQ(f(kept.back(), x).item<float>(), 2.f * i);
    EXPECT_EQ(f(kept.front(), x).item<float>(), 2.f * std::max(0, i - 2));
    EXPECT_LE(recordings(), before + 3);
  }
}

TEST(JitModules, OfOneStructureAreCompiledOnce) {
  auto f = jit([](const nn::Linear &layer, const Tensor &x) { return layer(x) * 3; });
  NoGrad no_grad;
  Tensor x = ones({1, 2});
  EXPECT_EQ(f(filled(1), x).item<float>(), 6.f);
  synchronize();
  uint64_t compiles = statistics().compiles;
  for (int i = 2; i < 6; ++i)
    EXPECT_EQ(f(filled(i), x).item<float>(), 6.f * i);
  synchronize();
  EXPECT_EQ(statistics().compiles, compiles);
}

// Each has a state of its own, which calls write.
TEST(JitModules, KeepTheirStatesApart) {
  struct Counter : nn::Module {
    nn::Parameter count = buffer("count", zeros({2}));
  };
  auto f = jit([](const Tensor &x, const std::vector<Counter> &counters) {
    Tensor count = counters.at(0).count;
    count += x;
    return count * 1;
  });
  NoGrad no_grad;
  for (int session = 0; session < 4; ++session) {
    std::vector<Counter> one(1);
    for (int i = 1; i <= 3; ++i)
      EXPECT_EQ(values(f(ones({2}), one)), Floats(2, float(i)));
    EXPECT_EQ(values(one[0].count), Floats(2, 3.f));
  }
  std::vector<Counter> a(1), b(1);
  for (int i = 1; i <= 3; ++i) {
    f(ones({2}), a);
    f(full({2}, 2), b);
    EXPECT_EQ(values(a[0].count), Floats(2, float(i)));
    EXPECT_EQ(values(b[0].count), Floats(2, 2.f * float(i)));
  }
}

// A handle of the user's own: what its copies share tells the objects apart.
struct Table {
  std::shared_ptr<Tensor> rows;
  std::vector<std::pair<std::string, Tensor>> state() const {
    return {{"rows", *rows}};
  }
  std::shared_ptr<const void> identity() const {
    return rows;
  }
};
// An address does not: the next object gets it.
struct Addressed {
  Tensor rows;
  std::vector<std::pair<std::string, Tensor>> state() const {
    return {{"rows", rows}};
  }
  const void *identity() const {
    return this;
  }
};
static_assert(tensor_tree::IsModule<Table> && !tensor_tree::IsModule<Addressed>);

TEST(JitModules, MayBeHandlesOfOnesOwn) {
  int calls = 0;
  auto f = jit([&](const std::optional<Table> &table, const Tensor &x) {
    ++calls;
    return table ? x + *table->rows : x;
  });
  Tensor x = tensor({1.f});
  for (int i = 0; i < 5; ++i) {
    Table table{std::make_shared<Tensor>(tensor({float(i)}))}, handle = table;
    EXPECT_EQ(values(f(table, x)), (Floats{float(i) + 1}));
    *table.rows += 10;
    EXPECT_EQ(values(f(handle, x)), (Floats{float(i) + 11}));
    EXPECT_EQ(values(f(std::nullopt, x)), (Floats{1}));
  }
  EXPECT_EQ(calls, 6);
}

TEST(JitCalls, MayReturnNothing) {
  Tensor count = zeros({});
  auto f = jit([&](const Tensor &x) { count += x.sum(); });
  f(ones({3}));
  f(ones({3}));
  EXPECT_EQ(count.item<float>(), 6.f);
}

// A call would start from the value that the handle had at the first one.
TEST(JitCalls, RefuseToReturnWhatAHandleFromOutsideWasGiven) {
  Tensor state = zeros({2}).eval();
  auto step = [&](const Tensor &x) {
    state = state + x;
    return state;
  };
  auto f = jit(step);
  for (const auto &call : std::vector<std::function<void()>>{
           [&] { f(ones({2})); }, [&] { trace(step, {ones({2})}); }}) {
    state = zeros({2}).eval();
    std::string message = testing_support::message_of(call);
    EXPECT_NE(message.find("is still referred to from outside"), std::string::npos) << message;
    EXPECT_NE(message.find("write it in place with copy_"), std::string::npos) << message;
  }
  state = zeros({2}).eval();
  auto in_place = jit([&](const Tensor &x) {
    state.copy_(state + x);
    return state;
  });
  for (float wanted : {1.f, 2.f, 3.f})
    EXPECT_EQ(values(in_place(ones({2}))), std::vector<float>(2, wanted));
}

// WEFT_JIT_CHECK=1: what a function has frozen may not change.
TEST(JitCheck, SaysWhatTheFunctionReadsOtherwise) {
  struct Checked {
    Config before = config();
    Checked() {
      Config checked = before;
      checked.jit_check = true;
      set_config(checked);
    }
    ~Checked() {
      set_config(before);
    }
  } checked;
  float scale = 1;
  auto scaled = jit([&](const Tensor &x) { return x * scale; });
  Tensor weight = ones({2}).eval();
  auto weighed = jit([&](const Tensor &x) { return weight + x; });
  std::vector<float> table = {1, 2};
  auto looked_up = jit([&](const Tensor &x) { return x * Tensor::from(table); });
  int times = 1;
  auto repeated = jit([&](Tensor x) {
    for (int i = 0; i < times; ++i)
      x = x * 2.0;
    return x;
  });
  auto call_all = [&] {
    return std::array<std::string, 4>{
        testing_support::message_of([&] { scaled(ones({2})); }),
        testing_support::message_of([&] { weighed(ones({2})); }),
        testing_support::message_of([&] { looked_up(ones({2})); }),
        testing_support::message_of([&] { repeated(ones({2})); })};
  };
  for (int call = 0; call < 3; ++call) {
    for (const std::string &message : call_all())
      EXPECT_EQ(message, "nothing was thrown");
    weight += 1; // read again at each call
  }
  scale = 5;
  weight = zeros({2}).eval();
  table = {5, 6};
  times = 2;
  std::array<std::string, 4> said = call_all();
  const char *expected[] = {"reads another number than", "reads another captured tensor than",
                            "reads other data that it makes a tensor of than",
                            "records another program than"};
  for (size_t i = 0; i < said.size(); ++i)
    EXPECT_NE(said[i].find(expected[i]), std::string::npos) << said[i];
}

// What a function leaves in a handle of its caller's has no value: whoever reads it is told so, at
// once, and everything else goes on.
TEST(JitCalls, KeepWhatTheyCaptureAfterAnErrorThatTheFunctionCatches) {
  Tensor lost = index_select(ones({2}), 0, tensor<int64_t>({7}));
  EXPECT_NE(testing_support::message_of([&] { values(lost); }), "nothing was thrown");
  Tensor x = lost + 1, y = full({3}, 7.f).eval();
  auto f = jit([&](const Tensor &a) {
    try {
      Tensor t = x * 2;
    } catch (const Error &) {}
    return Tensor(a + y);
  });
  for (int call = 0; call < 2; ++call)
    EXPECT_EQ(values(f(ones({3}))), std::vector<float>(3, 8));
  EXPECT_EQ(values(y), std::vector<float>(3, 7));
  EXPECT_NE(testing_support::message_of([&] { values(x); }), "nothing was thrown");
}

TEST(JitCalls, StayRecordedAfterAnErrorThatTheFunctionCatches) {
  Tensor lost = index_select(ones({2}), 0, tensor<int64_t>({7}));
  EXPECT_NE(testing_support::message_of([&] { values(lost); }), "nothing was thrown");
  Tensor reads = lost + 1;
  int caught = 0;
  auto f = jit([&](const Tensor &x) {
    try {
      Tensor y = reads * 2;
    } catch (const Error &) {
      ++caught;
    }
    return Tensor(x * x.item<float>());
  });
  std::string message = testing_support::message_of([&] { f(ones({1})); });
  EXPECT_EQ(caught, 1);
  EXPECT_NE(message.find("a value is asked for (value) while weft::jit records"), std::string::npos)
      << message;
}

// A shape that depends on values is refused by the op's name, with what keeps the shape.
TEST(JitCalls, NameTheOpWhoseShapeDependsOnValues) {
  Tensor x = arange(6).to(int64).eval();
  for (auto [op, function] : {std::pair<std::string, std::function<Tensor(const Tensor &)>>{
                                  "nonzero", [](const Tensor &in) { return nonzero(in > 2); }},
                              {"bincount", [](const Tensor &in) { return bincount(in); }}}) {
    auto f = jit(function);
    std::string message = testing_support::message_of([&] { f(x); });
    EXPECT_NE(message.find(op + ": how many elements the result has depends on values"),
              std::string::npos)
        << message;
    for (const char *instead : {"where()", "index_add() into zeros of a size that is known"})
      EXPECT_NE(message.find(instead), std::string::npos) << message;
  }
}

TEST(JitCalls, LeaveNothingInHandlesFromOutside) {
  auto expect_refused = [](const Tensor &left) {
    for (const auto &read : std::vector<std::function<void()>>{
             [&] { values(left); }, [&] { (left + 1).eval(); }, [&] { eval({left, ones({3})}); }})
      try {
        read();
        ADD_FAILURE() << "read";
      } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::kState);
        EXPECT_NE(std::string(error.what()).find("return the tensor from the function"),
                  std::string::npos)
            << error.what();
      }
  };
  Tensor left;
  auto f = jit([&](const Tensor &x) {
    left = x + 1;
    return x * 2.0;
  });
  EXPECT_EQ(values(f(ones({3}))), Floats({2, 2, 2}));
  expect_refused(left);
  EXPECT_EQ(values(f(full({3}, 2.f))), Floats({4, 4, 4}));

  auto same = jit([&](const Tensor &x) {
    left = x + 1;
    return left;
  });
  Tensor result = same(ones({3}));
  EXPECT_EQ(values(result), Floats({2, 2, 2}));
  expect_refused(left);

  std::vector<Tensor> kept;
  Program program = trace(
      [&](const Tensor &x) {
        kept.push_back(x * 2.0);
        return x;
      },
      {ones({3})});
  expect_refused(kept[0]);
  EXPECT_EQ(values(program.run({ones({3})})[0]), Floats({1, 1, 1}));
}

// A thread that the function starts is not recorded: what it makes is read as a captured tensor is.
TEST(JitCalls, ReadWhatAnotherThreadRecordsMeanwhile) {
  Tensor x = ones({3});
  for (bool of_the_argument : {false, true}) {
    auto function = [&](const Tensor &y) {
      Tensor made;
      std::thread([&] { made = (of_the_argument ? x : ones({3})) * 3.0; }).join();
      return y + made;
    };
    auto f = jit(function);
    EXPECT_EQ(values(f(x)), Floats({4, 4, 4}));
    EXPECT_EQ(values(f(x + 1)), Floats({5, 5, 5}));
    Program program = trace(function, {x});
    EXPECT_EQ(values(program.run({x})[0]), Floats({4, 4, 4}));
  }
}

// It would be run once, while the function is recorded, and its results would stay what they were.
TEST(JitCalls, RefuseToRunAProgram) {
  Tensor total = zeros({2}), c = ones({2}).eval();
  Program add = trace(
      [&](const Tensor &x) {
        total += x;
        return total * 1;
      },
      {c});
  int line = __LINE__ + 2;
  auto run = [&](const Tensor &x) {
    return add.run({c})[0] + x;
  };
  auto f = jit(run);
  using testing_support::message_of;
  for (const std::string &what :
       {message_of([&] { f(c); }, ErrorKind::kState, line),
        message_of([&] { (void)trace(run, std::vector{c}); }, ErrorKind::kState, line)}) {
    EXPECT_NE(what.find("records the function that this call is in"), std::string::npos) << what;
    EXPECT_NE(what.find("call the function that it was traced from"), std::string::npos) << what;
  }
  EXPECT_EQ(values(add.state()[0].second), (Floats{0, 0}));
  EXPECT_EQ(values(run(c)), (Floats{2, 2}));
}

// The placeholder of an argument has no value that another thread could compute with.
TEST(JitCalls, RefuseAnotherThreadsWorkOnAnArgument) {
  auto f = jit([&](const Tensor &x) {
    Tensor made;
    std::thread([&] { made = x * 3.0; }).join();
    return x + made;
  });
  EXPECT_THROW(f(ones({3})), Error);
  EXPECT_EQ(values(ones({3}) + 1), Floats({2, 2, 2}));
}

// A model with an optimizer that keeps moments and counts, dropout, and statistics of a norm.
struct Trainer {
  struct Model : nn::Module {
    nn::Linear up = child("up", nn::Linear(4, 8));
    nn::BatchNorm1d norm = child("norm", nn::BatchNorm1d(8));
    nn::Dropout dropout = child("dropout", nn::Dropout(0.25));
    nn::Linear down = child("down", nn::Linear(8, 1));
    Tensor operator()(const Tensor &x) {
      return down(dropout(relu(norm(up(x)))));
    }
  } model;
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-2}};

  Tensor operator()(const Tensor &x, const Tensor &y) {
    Tensor loss = nn::mse(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss.detach();
  }
};

TEST(TracedSteps, TrainAsPlainStepsDo) {
  auto train = [](int mode) {
    manual_seed(3);
    Trainer trainer;
    Generator data(17);
    Program program;
    auto fast = jit([&](const Tensor &x, const Tensor &y) { return trainer(x, y); });
    Floats numbers;
    for (int i = 0; i < 6; ++i) {
      Tensor x = rand({16, 4}, data), y = x.sum(1, true);
      if (mode == 2 && i == 0)
        program = trace([&](const Tensor &x, const Tensor &y) { return trainer(x, y); }, {x, y},
                        {{"model", trainer.model}, {"optimizer", trainer.optimizer}});
      Tensor loss = mode == 0 ? trainer(x, y) : mode == 1 ? fast(x, y) : program.run({x, y})[0];
      numbers.push_back(loss.item<float>());
    }
    auto state = mode == 2 ? program.state() : nn::NamedTensors();
    if (mode == 2) {
      std::map<std::string, Tensor> kept(state.begin(), state.end());
      EXPECT_TRUE(kept.count("generator"));
      EXPECT_TRUE(kept.count("optimizer.step"));
      for (const auto &[name, tensor] : trainer.model.state())
        for (float value : kept.at("model." + name).to_vector<float>())
          numbers.push_back(value);
    } else {
      for (const auto &[name, tensor] : trainer.model.state())
        for (float value : tensor.to_vector<float>())
          numbers.push_back(value);
    }
    return numbers;
  };
  Floats plain = train(0);
  EXPECT_EQ(train(1), plain);
  EXPECT_EQ(train(2), plain);
}

TEST(TracedSteps, GoOnFromAFile) {
  manual_seed(4);
  Trainer trainer;
  Tensor x = rand({16, 4}), y = x.sum(1, true);
  Program program = trace([&](const Tensor &x, const Tensor &y) { return trainer(x, y); }, {x, y},
                          {{"", trainer.model}});
  program.run({x, y});
  std::string path = testing::TempDir() + "/step.mlirbc";
  program.save(path, ProgramFormat::bytecode);
  Program loaded = Program::load(path);
  EXPECT_EQ(loaded.state().size(), program.state().size());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(loaded.run({x, y})[0].item<float>(), program.run({x, y})[0].item<float>());
}

TEST(TracedSteps, WriteTheirArguments) {
  Program program = trace(
      [](const Tensor &x, const Tensor &y) {
        Tensor sum = x;
        sum += y;
        return sum * 2;
      },
      {zeros({2}), zeros({2})});
  Tensor x = ones({2}), y = full({2}, 3.0);
  EXPECT_EQ(values(program.run({x, y})[0]), (Floats{8, 8}));
  EXPECT_EQ(values(x), (Floats{4, 4}));
  EXPECT_EQ(values(y), (Floats{3, 3}));
  EXPECT_EQ(testing_support::error_of([&] { program.run({x, x}); }).kind(), ErrorKind::kValue);
}

TEST(TracedSteps, StateCanBeSet) {
  Tensor count = zeros({1});
  Program program = trace(
      [&](const Tensor &x) {
        count += x;
        return count * 1;
      },
      {zeros({1})}, {{"", std::vector<std::pair<std::string, Tensor>>{{"count", count}}}});
  EXPECT_EQ(program.run({ones({1})})[0].item<float>(), 1.f);
  ASSERT_EQ(program.state().size(), 1u);
  EXPECT_EQ(program.state()[0].first, "count");
  program.state()[0].second.copy_(full({1}, 10));
  EXPECT_EQ(program.run({ones({1})})[0].item<float>(), 11.f);
  EXPECT_EQ(count.item<float>(), 0.f);
}

//===-- Beside other threads, and under another configuration -----------------------------------===//

// A function that is recorded only reads w: what another thread writes to w meanwhile stays.
TEST(JitBeside, WhatAnotherThreadWritesStays) {
  Tensor w = zeros({3}).eval();
  auto f = jit([&](const Tensor &x) {
    Tensor y = x * w;
    std::thread([&] { w.copy_(full({3}, 5.f)).eval(); }).join();
    return y;
  });
  (void)f(ones({3}));
  EXPECT_EQ(values(w), (Floats{5, 5, 5}));
}

// What a function records cannot be cut: a budget is for the ops of others.
TEST(JitBeside, ALongRecordingCutsNobodyElse) {
  Config before = config(), options = before;
  options.budget_ops = 100;
  set_config(options);
  uint64_t evaluations = 0;
  auto f = jit([&](const Tensor &x) {
    Tensor y = x;
    for (int i = 0; i < 200; ++i)
      y = y * 0.5 + 1;
    std::thread([&] {
      Tensor other = ones({4}).eval();
      uint64_t first = statistics().evaluations;
      for (int i = 0; i < 150; ++i)
        other = other * 0.5 + 1;
      evaluations = statistics().evaluations - first;
    }).join();
    return y;
  });
  (void)f(ones({4}));
  set_config(before);
  EXPECT_GE(evaluations, 1u);
  EXPECT_LE(evaluations, 10u); // of 300 ops; one for each op before
}

TEST(JitBeside, AnotherConfigurationIsAnotherProgram) {
  Config before = config(), options = before;
  options.prepare = !options.prepare;
  auto f = jit([](const Tensor &x) { return x * 2 + 1; });
  Tensor x = ones({4}).eval();
  auto replays = [&] {
    uint64_t first = statistics().replays;
    EXPECT_EQ(values(f(x)), (Floats{3, 3, 3, 3}));
    return statistics().replays - first;
  };
  (void)replays();
  EXPECT_EQ(replays(), 1u);
  set_config(options);
  EXPECT_EQ(replays(), 0u);
  EXPECT_EQ(replays(), 1u);
  set_config(before);
  EXPECT_EQ(replays(), 1u); // both are kept
}

} // namespace
} // namespace weft
