// Attention and its derivative as kernels: near reference evaluation, the same bits in any number
// of ranges and on a machine with narrower vectors, NaN and infinities where the reference has
// them.
#include <cmath>
#include <limits>
#include <map>

#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"
#include "dialects/weft/reference/Evaluation.h"
#include "tests/support/Compare.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

struct Case {
  std::vector<int64_t> batch;
  int64_t queries, keys, features, width;
  bool causal = false;
  std::string mask = ""; // shape and element type: "65x1xi1"
  std::string element = "f32";
  bool sumGradient = false;
};

// What is kept of a row.
std::string rowElement(const Case &c) {
  return c.element == "f64" ? "f64" : "f32";
}
std::string tensor(const Case &c, std::vector<int64_t> last, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : c.batch)
    text += std::to_string(size) + "x";
  for (int64_t size : last)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

struct Text {
  std::string signature, body, results;
};

std::string options(const Case &c) {
  return std::string("causal = ") + (c.causal ? "true" : "false") + ", scale = 0.3";
}

Text forward(const Case &c) {
  std::string q = tensor(c, {c.queries, c.features}, c.element),
              k = tensor(c, {c.keys, c.features}, c.element),
              v = tensor(c, {c.keys, c.width}, c.element),
              y = tensor(c, {c.queries, c.width}, c.element),
              l = tensor(c, {c.queries}, rowElement(c)),
              mask = c.mask.empty() ? "" : "tensor<" + c.mask + ">";
  return {"%q: " + q + ", %k: " + k + ", %v: " + v + (mask.empty() ? "" : ", %m: " + mask),
          "%y, %l = weft.attention %q, %k, %v " + std::string(mask.empty() ? "" : "mask %m ") +
              "{" + options(c) + "} : (" + q + ", " + k + ", " + v +
              (mask.empty() ? "" : ", " + mask) + ") -> (" + y + ", " + l + ")",
          "%y: " + y + ", %l: " + l};
}

Text gradient(const Case &c) {
  std::string q = tensor(c, {c.queries, c.features}, c.element),
              k = tensor(c, {c.keys, c.features}, c.element),
              v = tensor(c, {c.keys, c.width}, c.element),
              y = tensor(c, {c.queries, c.width}, c.element),
              l = tensor(c, {c.queries}, rowElement(c)),
              mask = c.mask.empty() ? "" : "tensor<" + c.mask + ">";
  std::string m = mask.empty() ? "" : ", %m: " + mask, s = c.sumGradient ? ", %s: " + l : "";
  return {"%q: " + q + ", %k: " + k + ", %v: " + v + ", %y: " + y + ", %l: " + l + ", %g: " + y +
              m + s,
          "%a, %b, %c = weft.attention_gradient %q, %k, %v result %y, %l gradient %g" +
              std::string(c.sumGradient ? ", %s " : " ") + (mask.empty() ? "" : "mask %m ") + "{" +
              options(c) + ", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, " +
              (mask.empty() ? "0" : "1") + (c.sumGradient ? ", 1>" : ", 0>") + "} : (" + q + ", " +
              k + ", " + v + ", " + y + ", " + l + ", " + y + (mask.empty() ? "" : ", " + mask) +
              (c.sumGradient ? ", " + l : "") + ") -> (" + q + ", " + k + ", " + v + ")",
          "%a: " + q + ", %b: " + k + ", %c: " + v};
}

std::vector<TargetInfo> targets() {
  auto least = TargetInfo::named("x86-64-v3");
  EXPECT_TRUE(least.ok()) << least.status().ToString();
  return {TargetInfo::host(), *least};
}

// The kernels of a text for each machine, which many values are tried on.
struct Built {
  std::unique_ptr<ParsedFusion> parsed;
  std::vector<std::unique_ptr<TestKernel>> kernels;
};
Built &build(const Text &text) {
  static std::map<std::string, Built> all;
  auto [it, isNew] = all.try_emplace(text.signature + text.body + text.results);
  Built &built = it->second;
  if (!isNew)
    return built;
  built.parsed = parseFusion(text.signature, text.body, text.results);
  for (const TargetInfo &target : targets()) {
    std::string message;
    if (built.parsed->fusion)
      built.kernels.push_back(
          TestKernel::build(built.parsed->fusion, message, /*dump=*/false, target));
    EXPECT_TRUE(!built.kernels.empty() && built.kernels.back())
        << message << " " << text.body << " for " << target.cpu;
  }
  return built;
}

// Runs the kernel on both machines; gives the reference's results.
std::vector<HostTensor> check(const Text &text, std::vector<HostTensor> inputs, double error) {
  Built &built = build(text);
  if (!built.parsed->fusion)
    return {};
  auto consumed = inputs;
  llvm::SmallVector<HostTensor> expected;
  EXPECT_TRUE(mlir::succeeded(
      ir::evaluateBlock(built.parsed->fusion.getBody().front(), consumed, expected)));
  std::vector<HostTensor> first;
  for (const std::unique_ptr<TestKernel> &kernel : built.kernels) {
    SCOPED_TRACE(text.body + (kernel == built.kernels.front() ? " for the host" : " for AVX2"));
    if (!kernel)
      return {};
    for (int64_t parts : {1, 3}) {
      std::vector<HostTensor> results;
      EXPECT_EQ(kernel->run(inputs, results, parts), WEFT_KERNEL_OK);
      for (size_t i = 0; i < expected.size(); ++i) {
        std::vector<double> bounds;
        for (int64_t at = 0; at < expected[i].size(); ++at)
          bounds.push_back(error * (1 + std::abs(expected[i].getDouble(at))));
        EXPECT_EQ(tests::compareWithin(results[i], expected[i], 0, bounds), "") << "result " << i;
        if (!first.empty())
          EXPECT_EQ(tests::compareExact(results[i], first[i]), "")
              << "result " << i << ", " << parts << " ranges";
      }
      if (first.empty())
        first = results;
    }
  }
  return {expected.begin(), expected.end()};
}

std::vector<HostTensor> samples(const Text &text) {
  auto parsed = parseFusion(text.signature, text.body, text.results);
  std::vector<HostTensor> inputs;
  if (parsed->fusion)
    for (mlir::Type type : parsed->fusion.getInputs().getTypes())
      inputs.push_back(sample(type, static_cast<int64_t>(inputs.size()) + 1));
  return inputs;
}

// The gradient's operands, given attention's and its results.
std::vector<HostTensor> gradientInputs(const Case &c, llvm::ArrayRef<HostTensor> inputs,
                                       llvm::ArrayRef<HostTensor> results) {
  std::vector<HostTensor> all = samples(gradient(c));
  std::copy_n(inputs.begin(), 3, all.begin());
  std::copy_n(results.begin(), 2, all.begin() + 3);
  if (!c.mask.empty())
    all[6] = inputs[3];
  return all;
}

double errorOf(const Case &c) {
  return c.element == "f64" ? 1e-12 : c.element == "f32" ? 2e-5 : c.element == "f16" ? 4e-3 : 3e-2;
}

void checkBoth(const Case &c, std::vector<HostTensor> inputs) {
  std::vector<HostTensor> results = check(forward(c), inputs, errorOf(c));
  if (!results.empty())
    check(gradient(c), gradientInputs(c, inputs, results), errorOf(c) * 10);
}
void checkBoth(const Case &c) {
  checkBoth(c, samples(forward(c)));
}

TEST(AttentionSchedule, SizesOddAndEven) {
  checkBoth({{}, 1, 1, 1, 1});
  checkBoth({{2}, 16, 8, 3, 5});
  checkBoth({{2, 3}, 33, 70, 64, 64});
  checkBoth({{3}, 64, 64, 80, 48});
  checkBoth({{1}, 131, 129, 128, 128});
  checkBoth({{2}, 197, 197, 17, 33});
  checkBoth({{0}, 5, 5, 4, 4});
  // As many matrices as there should be pieces: keys are not cut.
  checkBoth({{3, 3}, 20, 150, 8, 8, true});
}

TEST(AttentionSchedule, Causal) {
  checkBoth({{2}, 128, 128, 16, 16, true});
  checkBoth({{2}, 65, 200, 8, 24, true});
  // The first queries see nothing: blocks of them have no key at all.
  checkBoth({{2}, 200, 65, 8, 24, true, "", "f32", true});
}

// Of [batch, length, heads, features], without a copy.
TEST(AttentionSchedule, HeadsWhereTheyLie) {
  std::string apart = "tensor<2x70x3x16xf32>", heads = "tensor<2x3x70x16xf32>",
              rows = "tensor<2x3x70xf32>", body, types = heads + ", " + heads + ", " + heads;
  for (std::string name : {"q", "k", "v", "g"})
    body += "%" + name + "1 = weft.transpose %" + name + ", [0, 2, 1, 3] : " + apart + "\n";
  std::string signature = "%q: " + apart + ", %k: " + apart + ", %v: " + apart;
  check({signature,
         replaced(body, "%g1 = weft.transpose %g, [0, 2, 1, 3] : " + apart + "\n", "") +
             "%y, %l = weft.attention %q1, %k1, %v1 {causal = true, scale = 0.3} : (" + types +
             ") -> (" + heads + ", " + rows + ")",
         "%y: " + heads + ", %l: " + rows},
        samples({signature, "", "%q: " + apart}), 2e-5);
  signature += ", %y: " + heads + ", %l: " + rows + ", %g: " + apart;
  std::vector<HostTensor> inputs = samples({signature, "", "%q: " + apart});
  ASSERT_EQ(inputs.size(), 6u);
  for (int64_t i = 0; i < inputs[4].size(); ++i)
    inputs[4].set(i, 8);
  check({signature,
         body +
             "%a, %b, %c = weft.attention_gradient %q1, %k1, %v1 result %y, %l gradient %g1 "
             "{causal = true, scale = 0.3, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, "
             "0, 0>} : (" +
             types + ", " + heads + ", " + rows + ", " + heads + ") -> (" + types + ")",
         "%a: " + heads + ", %b: " + heads + ", %c: " + heads},
        inputs, 2e-4);
}

// Of keys and values [batch, length, 2 heads, features], each for three heads of queries.
TEST(AttentionSchedule, HeadsThatServeSeveral) {
  std::string apart = "tensor<2x70x2x16xf32>", fewer = "tensor<2x2x70x16xf32>",
              one = "tensor<2x2x1x70x16xf32>", each = "tensor<2x2x3x70x16xf32>",
              heads = "tensor<2x6x70x16xf32>", rows = "tensor<2x6x70xf32>", body,
              types = heads + ", " + heads + ", " + heads;
  for (std::string name : {"k", "v"})
    body += "%" + name + "0 = weft.transpose %" + name + ", [0, 2, 1, 3] : " + apart + "\n%" +
            name + "2 = weft.reshape %" + name + "0 : " + fewer + " to " + one + "\n%" + name +
            "3 = weft.broadcast %" + name + "2 : " + one + " to " + each + "\n%" + name +
            "1 = weft.reshape %" + name + "3 : " + each + " to " + heads + "\n";
  std::string signature = "%q: " + heads + ", %k: " + apart + ", %v: " + apart;
  check({signature,
         body + "%y, %l = weft.attention %q, %k1, %v1 {causal = true, scale = 0.3} : (" + types +
             ") -> (" + heads + ", " + rows + ")",
         "%y: " + heads + ", %l: " + rows},
        samples({signature, "", "%q: " + heads}), 2e-5);
  signature += ", %y: " + heads + ", %l: " + rows + ", %g: " + heads;
  std::vector<HostTensor> inputs = samples({signature, "", "%q: " + heads});
  ASSERT_EQ(inputs.size(), 6u);
  for (int64_t i = 0; i < inputs[4].size(); ++i)
    inputs[4].set(i, 8);
  check({signature,
         body +
             "%a, %b, %c = weft.attention_gradient %q, %k1, %v1 result %y, %l gradient %g "
             "{causal = true, scale = 0.3, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, "
             "0, 0>} : (" +
             types + ", " + heads + ", " + rows + ", " + heads + ") -> (" + types + ")",
         "%a: " + heads + ", %b: " + heads + ", %c: " + heads},
        inputs, 2e-4);
}

TEST(AttentionSchedule, Masks) {
  for (std::string type : {"i1", "f32"}) {
    checkBoth({{2, 3}, 70, 67, 16, 16, false, "70x67x" + type});
    checkBoth({{2, 3}, 35, 7, 16, 16, true, "3x35x7x" + type});
    checkBoth({{2, 3}, 70, 67, 16, 16, false, "2x1x1x67x" + type});
    checkBoth({{2}, 70, 67, 16, 16, false, "2x70x1x" + type});
    checkBoth({{2}, 70, 67, 16, 16, true, "67x" + type, "f32", true});
    checkBoth({{2}, 70, 67, 16, 16, false, type});
  }
}

TEST(AttentionSchedule, Dtypes) {
  for (std::string element : {"f64", "bf16", "f16"}) {
    checkBoth({{2}, 70, 67, 24, 16, true, "", element});
    checkBoth({{2}, 70, 67, 16, 24, false, "70x67x" + element, element, true});
    checkBoth({{2}, 17, 130, 16, 24, false, "17x130xi1", element});
  }
}

TEST(AttentionSchedule, RowsThatSeeNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::string type : {"i1", "f32"}) {
    Case c{{2}, 20, 70, 8, 8, false, "20x70x" + type};
    std::vector<HostTensor> inputs = samples(forward(c));
    for (int64_t query = 0; query < 20; ++query)
      for (int64_t key = 0; key < 70; ++key) {
        // Nothing, the first block alone, the last key alone, all.
        bool seen = query % 4 == 1 ? key < 35 : query % 4 == 2 ? key == 69 : query % 4 == 3;
        if (type == "i1")
          inputs[3].setInt(query * 70 + key, seen);
        else
          inputs[3].set(query * 70 + key, seen ? 0.5 : -kInfinity);
      }
    std::vector<HostTensor> results = check(forward(c), inputs, 2e-5);
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results[0].getDouble(0), 0);
    EXPECT_EQ(results[1].getDouble(0), -kInfinity);
    check(gradient(c), gradientInputs(c, inputs, results), 2e-4);
  }
}

// 0 times what is not finite is NaN, whether or not a block of keys could have been skipped.
TEST(AttentionSchedule, InfinitiesAndNaN) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                   kNaN = std::numeric_limits<double>::quiet_NaN();
  for (bool causal : {false, true})
    for (int64_t operand : {0, 1, 2})
      for (double value : {kNaN, kInfinity, -kInfinity}) {
        Case c{{2}, 130, 130, 8, 8, causal};
        std::vector<HostTensor> inputs = samples(forward(c));
        inputs[operand].set(120 * 8 + 3, value);
        std::vector<HostTensor> results = check(forward(c), inputs, 2e-5);
        ASSERT_EQ(results.size(), 2u);
        check(gradient(c), gradientInputs(c, inputs, results), 2e-4);
      }
  for (double value : {kNaN, kInfinity}) {
    Case c{{1}, 130, 130, 8, 8, true};
    std::vector<HostTensor> inputs = samples(forward(c)), results = check(forward(c), inputs, 2e-5);
    ASSERT_EQ(results.size(), 2u);
    std::vector<HostTensor> all = gradientInputs(c, inputs, results);
    all[5].set(3, value);
    check(gradient(c), all, 2e-4);
  }
}

// What nobody reads is not computed, and the rest keeps its bits.
TEST(AttentionSchedule, SomeResults) {
  Case c{{2}, 70, 67, 16, 24, true};
  Text text = gradient(c);
  std::vector<HostTensor> inputs = samples(text), all = check(text, inputs, 1e9);
  ASSERT_EQ(all.size(), 3u);
  std::vector<std::string> results = {"%a: " + tensor(c, {70, 16}, "f32"),
                                      "%b: " + tensor(c, {67, 16}, "f32"),
                                      "%c: " + tensor(c, {67, 24}, "f32")};
  std::string error;
  auto run = [&](const std::string &results) {
    auto parsed = parseFusion(text.signature, text.body, results);
    auto kernel = TestKernel::build(parsed->fusion, error);
    EXPECT_TRUE(kernel) << error;
    std::vector<HostTensor> given;
    if (kernel)
      EXPECT_EQ(kernel->run(inputs, given), WEFT_KERNEL_OK);
    return given;
  };
  std::vector<HostTensor> together = run(text.results);
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<HostTensor> alone = run(results[i]);
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_EQ(tests::compareExact(alone[0], together[i]), "") << i;
  }
}

// No buffer and no scratch has the size of the scores.
TEST(AttentionSchedule, MemoryIsLinear) {
  auto scratch = [&](const Text &text) {
    auto parsed = parseFusion(text.signature, text.body, text.results);
    std::string error;
    auto kernel = TestKernel::build(parsed->fusion, error);
    EXPECT_TRUE(kernel) << error;
    return kernel ? kernel->info.threadScratchBytes + kernel->info.partialsBytes : -1;
  };
  Case small{{2}, 256, 256, 16, 16}, large{{2}, 4096, 4096, 16, 16};
  EXPECT_EQ(scratch(forward(small)), scratch(forward(large)));
  // Partial results of parts of the keys, and sums wider than the result.
  EXPECT_LE(scratch(gradient(large)), 16 * scratch(gradient(small)));
  small.element = large.element = "bf16";
  EXPECT_LE(scratch(gradient(large)), 16 * scratch(gradient(small)));
  small.batch = large.batch = {8};
  small.element = large.element = "f32";
  EXPECT_EQ(scratch(gradient(small)), scratch(gradient(large)));
}

} // namespace
} // namespace weft::compiler
