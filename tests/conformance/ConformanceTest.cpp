// Every op, dtype by dtype, on every registered backend (and, for those that compile, without fusion and without providers) against
// reference evaluation, within the error budget of the op's record. All calls of an op in one dtype are one module.
#include <cmath>
#include <limits>
#include <map>

#include "dialects/weft/ir/OpTable.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/IRMapping.h"
#include "tests/support/BackendRun.h"
#include "tests/support/Compare.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;
using Tensors = std::vector<HostTensor>;

constexpr DType kTested[] = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool};

struct Batch {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Tensors inputs;
  // What each result of the module must be.
  struct Expected {
    std::string what;
    HostTensor value;
    double ulps;
    std::vector<double> bound;
  };
  std::vector<Expected> expected;
  std::string error;
};

const ir::OpRow &rowOf(llvm::StringRef op) {
  for (const ir::OpRow &row : ir::opTable())
    if (op.drop_front(5) == row.mnemonic) return row;
  llvm::report_fatal_error("the op table has no row for " + op);
}

// The records' budgets are those of f32. In f64 the reference is itself off by a unit, and functions that are composed of others (gelu,
// pow: budget 4) multiply their roundings by the size of an exponent, which the f32 forms hide by computing in f64.
double ulpsOf(int budget, DType dtype) {
  if (budget <= 0 || dtype != DType::kFloat64) return std::max(budget, 0);
  return budget >= 4 ? 256 : budget + 1;
}

int64_t product(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// How many terms are added up to one element of the op's results, at most.
double termsOf(OpModule &made) {
  llvm::StringRef name = made.op->getName().getStringRef();
  auto shape = [&](int64_t i) { return mlir::cast<mlir::RankedTensorType>(made.op->getOperand(i).getType()).getShape(); };
  if (name == "weft.matmul") return shape(0)[shape(0).size() - (mlir::cast<ir::MatmulOp>(made.op).getTransposeLhs() ? 2 : 1)];
  if (name == "weft.attention") return shape(0).back() + shape(1)[shape(1).size() - 2];
  if (name == "weft.index_add" || name == "weft.scatter_add") return 1 + product(shape(1));
  double terms = 1;
  for (int64_t i = 0, n = made.op->getNumOperands(); i < n; ++i) terms = std::max<double>(terms, product(shape(i)));
  // A reduction, or a composite of one: the last dims of what it reads.
  if (auto results = made.op->getResultTypes(); !results.empty() && mlir::isa<ir::ReduceSumOp, ir::ReduceMeanOp>(made.op))
    return terms / std::max<double>(1, product(mlir::cast<mlir::RankedTensorType>(results[0]).getShape()));
  if (auto norm = mlir::dyn_cast<ir::LayerNormOp>(made.op)) return product(shape(0).take_back(norm.getNormalizedRank()));
  return shape(0).empty() ? 1 : *std::max_element(shape(0).begin(), shape(0).end());
}

// The bound of an n-term sum: (n + c) u times the sum of the terms' absolute values, where u is half a unit in the last place of 1. The
// absolute values come from evaluating the op on its inputs' absolute values, where it is linear; composites, whose values are sums
// of bounded terms, take their largest result. c stands for the roundings beside the sum: some tens in a composite.
std::vector<double> sumBound(OpModule &made, DType dtype, const HostTensor &expected) {
  double unit = dtype == DType::kFloat64 ? std::ldexp(1, -53) : std::ldexp(1, -24), terms = termsOf(made);
  if (mlir::isa<ir::ReduceSumOp, ir::ReduceMeanOp, ir::MatmulOp, ir::IndexAddOp, ir::ScatterAddOp>(made.op)) {
    Tensors absolute = made.inputs;
    for (HostTensor &input : absolute)
      for (int64_t i = 0; is_floating(input.dtype) && i < input.size(); ++i) input.set(i, std::abs(input.getDouble(i)));
    std::string error;
    Tensors sums = evaluate(made.main, absolute, error);
    if (sums.empty()) return {0};
    std::vector<double> bound;
    for (int64_t i = 0; i < sums[0].size(); ++i) bound.push_back((terms + 2) * unit * sums[0].getDouble(i));
    return bound;
  }
  double largest = 1;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected.getDouble(i))) largest = std::max(largest, std::abs(expected.getDouble(i)));
  return {(terms + 64) * unit * largest};
}

// One module of all calls; each call's operands are arguments of their own.
Batch makeBatch(mlir::MLIRContext &context, const std::vector<OpCase> &cases, DType dtype) {
  Batch batch;
  mlir::OpBuilder builder(&context);
  mlir::Location loc = builder.getUnknownLoc();
  batch.module = mlir::ModuleOp::create(builder, loc);
  builder.setInsertionPointToEnd(batch.module->getBody());
  auto main = mlir::func::FuncOp::create(builder, loc, "main", builder.getFunctionType({}, {}));
  mlir::Block *block = main.addEntryBlock();
  llvm::SmallVector<mlir::Value> results;
  for (const OpCase &c : cases) {
    OpModule made = buildModule(context, c, dtype);
    if (!made) continue; // the record does not take this dtype
    Tensors expected = evaluate(made.main, made.inputs, batch.error);
    if (!batch.error.empty()) return batch;
    mlir::IRMapping mapping;
    for (mlir::Value argument : made.main.getArguments()) mapping.map(argument, block->addArgument(argument.getType(), argument.getLoc()));
    builder.setInsertionPointToEnd(block);
    mlir::Operation *op = builder.clone(*made.op, mapping);
    results.append(op->result_begin(), op->result_end());
    int ulp = rowOf(c.op).ulp;
    for (size_t i = 0; i < expected.size(); ++i) {
      Batch::Expected e{c.name() + ", " + name(dtype) + ", result " + std::to_string(i), expected[i], 0, {}};
      if (ulp < 0) e.bound = sumBound(made, dtype, expected[i]);
      e.ulps = ulpsOf(ulp, dtype);
      batch.expected.push_back(std::move(e));
    }
    for (HostTensor &input : made.inputs) batch.inputs.push_back(std::move(input));
  }
  builder.setInsertionPointToEnd(block);
  mlir::func::ReturnOp::create(builder, loc, results);
  main.setType(builder.getFunctionType(block->getArgumentTypes(), mlir::ValueRange(results).getTypes()));
  return batch;
}

class ConformanceTest : public testing::TestWithParam<std::tuple<Variant, std::string>> {
protected:
  void SetUp() override { prepare(context); }

  // Compares one run with what was expected; stops at the first few differences.
  static void compare(const Batch &batch, const Tensors &actual, const std::string &how) {
    ASSERT_EQ(actual.size(), batch.expected.size()) << how;
    for (size_t i = 0; i < actual.size(); ++i) {
      const Batch::Expected &e = batch.expected[i];
      std::string different = compareWithin(actual[i], e.value, e.ulps, e.bound);
      if (!different.empty()) ADD_FAILURE() << how << ": " << e.what << ": " << different;
    }
  }

  // Compiles and runs; skips the test (and says why) where the backend does not run the op at all.
  void check(const Batch &batch, const Variant &variant, const std::string &what) {
    ASSERT_EQ(batch.error, "");
    auto executable = compile(*batch.module, variant);
    if (executable.status().code() == absl::StatusCode::kUnimplemented) {
      unsupported += "\n" + what + ": " + std::string(executable.status().message());
      return;
    }
    ASSERT_TRUE(executable.ok()) << what << ": " << executable.status();
    auto single = run(*executable, batch.inputs, 1);
    ASSERT_TRUE(single.ok()) << what << ": " << single.status();
    compare(batch, *single, variant.name);
    auto several = run(*executable, batch.inputs, 2);
    ASSERT_TRUE(several.ok()) << what << ": " << several.status();
    for (size_t i = 0; i < single->size(); ++i)
      EXPECT_EQ(compareExact((*several)[i], (*single)[i]), "") << batch.expected[i].what << ": two threads differ from one";
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::string unsupported;
};

TEST_P(ConformanceTest, MatchesTheReference) {
  const auto &[variant, op] = GetParam();
  std::vector<OpCase> cases;
  for (const OpCase &c : allCases(context))
    if (c.op == op) cases.push_back(c);
  ASSERT_FALSE(cases.empty()) << op << " has no cases: add some to tests/support/OpCases.cpp";
  size_t checked = 0;
  for (DType dtype : kTested) {
    Batch batch = makeBatch(context, cases, dtype);
    if (batch.error.empty() && batch.expected.empty()) continue;
    check(batch, variant, op + " in " + name(dtype));
    if (HasFatalFailure()) return;
    checked += batch.expected.size();
  }
  EXPECT_GT(checked, 0u);
  if (!unsupported.empty()) GTEST_SKIP() << "unsupported:" << unsupported;
}

// Elementwise ops on what rounding, overflow and IEEE 754 make special, in all combinations.
class SpecialValuesTest : public ConformanceTest {};

TEST_P(SpecialValuesTest, MatchTheReference) {
  const auto &[variant, op] = GetParam();
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> floats = {0.0,  -0.0,  1,    -1,   0.5, -2,   3,   1e-30, -1e-30,      1e-40,
                                      1e30, -1e30, 88.7, -104, 1e4, -1e4, inf, -inf,  std::nan("")};
  const std::vector<int64_t> integers = {0,
                                         1,
                                         -1,
                                         2,
                                         -7,
                                         5,
                                         std::numeric_limits<int32_t>::max(),
                                         std::numeric_limits<int32_t>::min(),
                                         std::numeric_limits<int64_t>::max(),
                                         std::numeric_limits<int64_t>::min()};
  for (DType dtype : kTested) {
    int64_t values = is_floating(dtype) ? floats.size() : dtype == DType::kBool ? 2 : integers.size();
    // One call for each set of attributes and result dtype, its shape made to hold all combinations.
    std::map<std::string, OpCase> cases;
    for (OpCase c : allCases(context)) {
      if (c.op != op) continue;
      int64_t n = 1;
      for (size_t i = 0; i < c.operands.size(); ++i) n *= values;
      for (TensorSpec &operand : c.operands) operand.shape = {n};
      for (TensorSpec &result : c.results) result.shape = {n};
      cases.try_emplace(c.attributes + (c.results.empty() ? "" : name(c.results[0].dtype.value_or(dtype))), c);
    }
    // Samples are drawn by buildModule; the special values replace them before anything is evaluated.
    for (const auto &[key, c] : cases) {
      OpModule made = buildModule(context, c, dtype);
      if (!made) continue;
      int64_t stride = 1;
      for (HostTensor &input : made.inputs) {
        for (int64_t i = 0; i < input.size(); ++i) {
          int64_t k = i / stride % values;
          if (is_floating(input.dtype)) input.set(i, floats[k]);
          else if (input.dtype == DType::kBool) input.setInt(i, k % 2);
          else input.setInt(i, integers[k]);
        }
        stride *= values;
      }
      Batch batch;
      Tensors expected = evaluate(made.main, made.inputs, batch.error);
      for (size_t i = 0; i < expected.size(); ++i)
        batch.expected.push_back({c.op + " on special values, " + name(dtype),
                                  expected[i],
                                  double(rowOf(op).ulp) + (rowOf(op).ulp > 0 && dtype == DType::kFloat64),
                                  {}});
      batch.inputs = made.inputs;
      batch.module = std::move(made.module);
      check(batch, variant, op + " in " + name(dtype));
      if (HasFatalFailure()) return;
    }
  }
  if (!unsupported.empty()) GTEST_SKIP() << "unsupported:" << unsupported;
}

std::vector<std::string> ops() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  return opsWithCases(context);
}

std::vector<std::string> elementwiseOps() {
  std::vector<std::string> names = ops();
  llvm::erase_if(names, [](const std::string &op) { return rowOf(op).kind != ir::Kind::Elementwise; });
  return names;
}

std::string testName(const testing::TestParamInfo<std::tuple<Variant, std::string>> &info) {
  std::string text = std::get<0>(info.param).name + "_" + std::get<1>(info.param).substr(5);
  for (char &c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTest, testing::Combine(testing::ValuesIn(variants()), testing::ValuesIn(ops())), testName);
INSTANTIATE_TEST_SUITE_P(Backends, SpecialValuesTest, testing::Combine(testing::ValuesIn(variants()), testing::ValuesIn(elementwiseOps())),
                         testName);

TEST(ConformanceTable, EveryOpHasARow) {
  for (const std::string &op : ops()) EXPECT_STREQ(rowOf(op).mnemonic, op.substr(5).c_str());
}

} // namespace
} // namespace weft::tests
