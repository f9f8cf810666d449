// Every op, dtype by dtype, on every registered backend (and, for those that compile, without
// fusion and without providers) against reference evaluation, within the error budget of the op's
// record. All calls of an op in one dtype are one module. What a backend may refuse stands in a
// table (Refusals.h).
// Of what makes the same kernels in another way (operands that are views, Variant::byTurns)
// a run takes every third dtype of an op (Turns.h).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/IRMapping.h"
#include "tests/conformance/Refusals.h"
#include "tests/support/BackendRun.h"
#include "tests/support/Compare.h"
#include "tests/support/ErrorBudget.h"
#include "tests/support/OpModule.h"
#include "tests/support/OpRows.h"
#include "tests/support/Turns.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;
using Tensors = std::vector<HostTensor>;

struct Batch {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Tensors inputs;
  // What each result of the module must be.
  struct Expected {
    std::string what;
    HostTensor value;
    Budget budget;
  };
  std::vector<Expected> expected;
  std::string error;
};

// How the operands of a call lie in memory: as arguments of the module, or as views of arguments,
// which a backend may read in place.
enum class Layout { Contiguous, Views };

mlir::Value addArgument(Batch &batch, mlir::Block *block, const HostTensor &tensor) {
  mlir::MLIRContext &context = *batch.module->getContext();
  batch.inputs.push_back(tensor);
  return block->addArgument(typeOf(tensor, context), mlir::UnknownLoc::get(&context));
}

void copyElement(HostTensor &to, int64_t at, const HostTensor &from, int64_t i) {
  int64_t width = byte_size(from.dtype);
  std::memcpy(to.bytes.data() + at * width, from.bytes.data() + i * width, width);
}

// Where element i of `shape` lies in a buffer with these strides.
int64_t offsetOf(int64_t i, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides) {
  int64_t offset = 0;
  for (size_t d = shape.size(); d-- > 0; i /= shape[d])
    offset += i % shape[d] * strides[d];
  return offset;
}

// An argument with the dims in the opposite order, and its transpose.
mlir::Value addTransposed(Batch &batch, mlir::OpBuilder &builder, mlir::Block *block,
                          const HostTensor &tensor) {
  HostTensor base(tensor.dtype, {tensor.shape.rbegin(), tensor.shape.rend()});
  std::vector<int64_t> strides, permutation;
  for (int64_t stride = 1; int64_t extent : tensor.shape) {
    strides.push_back(stride);
    permutation.insert(permutation.begin(), int64_t(permutation.size()));
    stride *= extent;
  }
  for (int64_t i = 0; i < tensor.size(); ++i)
    copyElement(base, offsetOf(i, tensor.shape, strides), tensor, i);
  return transpose(ir::Val(builder, builder.getUnknownLoc(), addArgument(batch, block, base)),
                   permutation);
}

// Every second element of an argument along each dim, along the last one backwards. What lies
// between is never to be read.
mlir::Value addStrided(Batch &batch, mlir::OpBuilder &builder, mlir::Block *block,
                       const HostTensor &tensor) {
  size_t rank = tensor.shape.size();
  std::vector<int64_t> extents, strides(rank), starts(rank, 1), limits, steps(rank, 2);
  for (int64_t extent : tensor.shape) {
    extents.push_back(2 * extent + 1);
    limits.push_back(2 * extent + 1);
  }
  HostTensor base(tensor.dtype, extents);
  for (int64_t i = 0; i < base.size(); ++i)
    is_floating(base.dtype) ? base.set(i, std::nan("")) : base.setInt(i, -1);
  int64_t stride = 1, offset = 0;
  for (size_t d = rank; d-- > 0; stride *= extents[d])
    strides[d] = 2 * stride, offset += stride;
  if (rank > 0) {
    offset += (tensor.shape[rank - 1] - 1) * strides[rank - 1];
    strides[rank - 1] = -2;
    starts[rank - 1] = 2 * tensor.shape[rank - 1] - 1;
    limits[rank - 1] = -1;
    steps[rank - 1] = -2;
    if (tensor.shape[rank - 1] == 0)
      starts[rank - 1] = limits[rank - 1] = 0;
  }
  for (int64_t i = 0; i < tensor.size(); ++i)
    copyElement(base, offset + offsetOf(i, tensor.shape, strides), tensor, i);
  mlir::Value argument = addArgument(batch, block, base);
  return ir::SliceOp::create(builder, builder.getUnknownLoc(), argument, starts, limits, steps);
}

// One module of all calls; each call's operands are arguments (or views of arguments) of their own.
Batch makeBatch(mlir::MLIRContext &context, const std::vector<OpCase> &cases, DType dtype,
                Layout layout, int64_t mostNarrow) {
  Batch batch;
  mlir::OpBuilder builder(&context);
  mlir::Location loc = builder.getUnknownLoc();
  batch.module = mlir::ModuleOp::create(builder, loc);
  builder.setInsertionPointToEnd(batch.module->getBody());
  auto main = mlir::func::FuncOp::create(builder, loc, "main", builder.getFunctionType({}, {}));
  mlir::Block *block = main.addEntryBlock();
  llvm::SmallVector<mlir::Value> results;
  size_t calls = 0;
  for (const OpCase &c : cases) {
    OpModule made = buildModule(context, c, dtype);
    if (!made)
      continue; // the record does not take this dtype
    if (byte_size(dtype) < 4 && dtype != DType::kBool &&
        llvm::any_of(made.inputs, [&](const HostTensor &i) { return i.size() > mostNarrow; }))
      continue;
    Tensors expected = evaluate(made.main, made.inputs, batch.error);
    if (!batch.error.empty())
      return batch;
    mlir::IRMapping mapping;
    builder.setInsertionPointToEnd(block);
    for (mlir::BlockArgument argument : made.main.getArguments()) {
      // Each of the ways to lie in memory meets each operand.
      size_t number = argument.getArgNumber() + calls;
      mapping.map(argument,
                  layout == Layout::Contiguous
                      ? addArgument(batch, block, made.inputs[argument.getArgNumber()])
                  : number % 2
                      ? addTransposed(batch, builder, block, made.inputs[argument.getArgNumber()])
                      : addStrided(batch, builder, block, made.inputs[argument.getArgNumber()]));
    }
    mlir::Operation *op = builder.clone(*made.op, mapping);
    results.append(op->result_begin(), op->result_end());
    for (size_t i = 0; i < expected.size(); ++i)
      batch.expected.push_back({c.name() + ", " + name(dtype) + ", result " + std::to_string(i),
                                expected[i], budgetOf(made, dtype, expected[i])});
  }
  builder.setInsertionPointToEnd(block);
  mlir::func::ReturnOp::create(builder, loc, results);
  main.setType(
      builder.getFunctionType(block->getArgumentTypes(), mlir::ValueRange(results).getTypes()));
  return batch;
}

std::vector<std::string> ops() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  return opsWithCases(context);
}

const absl::StatusOr<Refusals> &expectedRefusals() {
  static const absl::StatusOr<Refusals> table = Refusals::fromEnvironment(ops());
  return table;
}

// What the variants of an op have in common, which follow one another (parameters()): its modules
// with what reference evaluation says of them. Those of one op at a time.
class Batches {
public:
  explicit Batches(std::string op) : op_(std::move(op)) {
    prepare(context);
    for (const OpCase &c : allCases(context))
      if (c.op == op_)
        cases.push_back(c);
  }

  static Batches &of(const std::string &op) {
    if (!last || last->op_ != op)
      last = std::make_unique<Batches>(op);
    return *last;
  }
  static void forget() {
    last.reset();
  }

  const Batch &of(DType dtype, Layout layout, int64_t mostNarrow) {
    auto [it, isNew] = batches_.try_emplace({dtype, layout, mostNarrow});
    if (isNew)
      it->second = makeBatch(context, cases, dtype, layout, mostNarrow);
    return it->second;
  }
  // Of special values, by the name of the call.
  const Batch &of(DType dtype, const std::string &call, llvm::function_ref<Batch()> make) {
    auto [it, isNew] = special_.try_emplace({dtype, call});
    if (isNew)
      it->second = make();
    return it->second;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::vector<OpCase> cases;

private:
  static inline std::unique_ptr<Batches> last;

  const std::string op_;
  std::map<std::tuple<DType, Layout, int64_t>, Batch> batches_;
  std::map<std::pair<DType, std::string>, Batch> special_;
};

class ConformanceTest : public testing::TestWithParam<std::tuple<Variant, std::string>> {
protected:
  void SetUp() override {
    ASSERT_TRUE(expectedRefusals().ok()) << expectedRefusals().status();
  }
  static void TearDownTestSuite() {
    Batches::forget();
  }

  // Compares one run with what was expected; stops at the first few differences.
  static void compare(const Batch &batch, const Tensors &actual, const std::string &how) {
    ASSERT_EQ(actual.size(), batch.expected.size()) << how;
    for (size_t i = 0; i < actual.size(); ++i) {
      const Batch::Expected &e = batch.expected[i];
      std::string different = compareWithin(actual[i], e.value, e.budget.ulps, e.budget.bound);
      if (!different.empty())
        ADD_FAILURE() << how << ": " << e.what << ": " << different;
    }
  }

  // Compiles and runs; skips the test (and says why) where the backend's device is not there.
  void check(const Batch &batch, const Variant &variant, DType dtype, const std::string &what) {
    ASSERT_EQ(batch.error, "");
    auto executable = compile(*batch.module, variant);
    if (executable.status().code() == absl::StatusCode::kUnavailable)
      GTEST_SKIP() << executable.status().message();
    std::string &refusal = refusals[dtype]; // it was tried
    if (executable.status().code() == absl::StatusCode::kUnimplemented) {
      refusal = what + ": " + std::string(executable.status().message());
      return;
    }
    ASSERT_TRUE(executable.ok()) << what << ": " << executable.status();
    auto single = run(*executable, batch.inputs, 1, variant.backend);
    ASSERT_TRUE(single.ok()) << what << ": " << single.status();
    compare(batch, *single, variant.name);
    checked += batch.expected.size();
    if (!variant.threads)
      return;
    auto several = run(*executable, batch.inputs, 2, variant.backend);
    ASSERT_TRUE(several.ok()) << what << ": " << several.status();
    for (size_t i = 0; i < single->size(); ++i)
      EXPECT_EQ(compareExact((*several)[i], (*single)[i]), "")
          << batch.expected[i].what << ": two threads differ from one";
  }

  // What was refused is what the table says, no more and no less. Skips the test (and says why)
  // where nothing is left.
  void compareRefusals(const std::string &variant, llvm::StringRef op) {
    op.consume_front("weft.");
    std::string expected;
    for (const auto &[dtype, refusal] : refusals) {
      const std::string *reason = expectedRefusals()->find(variant, op.str(), dtype);
      if (reason && refusal.empty() && !untried.contains(dtype))
        ADD_FAILURE() << variant << ": " << op.str() << " in " << name(dtype)
                      << " is not refused any more: take it out of the table of refusals (which "
                         "says: "
                      << *reason << ")";
      if (!reason && !refusal.empty())
        ADD_FAILURE() << variant << " refuses " << refusal
                      << "\n  Mend it, or add to the table of refusals, with the reason:\n  "
                      << variant << " | " << op.str() << " | " << name(dtype) << " | ...";
      if (reason && !refusal.empty())
        expected += "\n" + op.str() + " in " + name(dtype) + ": expected: " + *reason;
    }
    if (!expected.empty())
      std::printf("%s refuses%s\n", variant.c_str(), expected.c_str());
    ASSERT_TRUE(checked > 0 || !expected.empty()) << "nothing was tried";
    if (checked == 0)
      GTEST_SKIP() << variant << " refuses all of it, as its table says:" << expected;
  }

  std::map<DType, std::string> refusals; // by what was tried: empty, or what was refused
  std::set<DType> untried;               // has no turn, and may be refused
  size_t checked = 0;                    // results that were compared
};

TEST_P(ConformanceTest, MatchesTheReference) {
  const auto &[variant, op] = GetParam();
  Batches &batches = Batches::of(op);
  ASSERT_FALSE(batches.cases.empty())
      << op << " has no cases: add some to tests/support/OpCases.cpp";
  auto checkLayout = [&](Layout layout, bool byTurns) {
    std::string way = layout == Layout::Views ? " on views" : "";
    for (const DTypeInfo &info : kDTypes) {
      if (byTurns && !hasTurn(op, variant.name, info.dtype)) {
        untried.insert(info.dtype);
        continue;
      }
      const Batch &batch = batches.of(info.dtype, layout, variant.mostNarrow);
      if (batch.error.empty() && batch.expected.empty())
        continue;
      check(batch, variant, info.dtype, op + " in " + name(info.dtype) + way);
      if (HasFatalFailure() || IsSkipped())
        return;
    }
  };
  checkLayout(Layout::Contiguous, variant.byTurns);
  // Where no dtype of the op has its turn.
  if (!HasFatalFailure() && !IsSkipped() && refusals.empty())
    checkLayout(Layout::Contiguous, false);
  if (HasFatalFailure() || IsSkipped())
    return;
  if (variant.views && variant.options.claim && rowOf(op).kind != ir::Kind::Creation)
    checkLayout(Layout::Views, true);
  if (HasFatalFailure() || IsSkipped())
    return;
  compareRefusals(variant.name, op);
}

// In f64 the reference is itself off by a unit; bf16 and f16 are rounded from an f32 that may be
// off.
Budget budgetOfSpecialValues(const std::string &op, DType dtype) {
  int ulp = rowOf(op).ulp;
  if (ulp > 0 && byte_size(dtype) < 4)
    return {1, {}};
  return {double(ulp) + (ulp > 0 && dtype == DType::kFloat64), {}};
}

// A call on all combinations of the first `values` of these. Without a module where the record does
// not take the dtype.
Batch specialBatch(mlir::MLIRContext &context, const OpCase &c, DType dtype,
                   const std::vector<double> &floats, const std::vector<int64_t> &integers,
                   int64_t values) {
  Batch batch;
  OpModule made = buildModule(context, c, dtype);
  if (!made)
    return batch;
  // Samples are drawn by buildModule; the special values replace them before anything is
  // evaluated.
  int64_t stride = 1;
  for (HostTensor &input : made.inputs) {
    for (int64_t i = 0; i < input.size(); ++i) {
      int64_t k = i / stride % values;
      if (is_floating(input.dtype))
        input.set(i, floats[k]);
      else if (input.dtype == DType::kBool)
        input.setInt(i, k % 2);
      else
        input.setInt(i, integers[k]);
    }
    stride *= values;
  }
  Tensors expected = evaluate(made.main, made.inputs, batch.error);
  for (size_t i = 0; i < expected.size(); ++i)
    batch.expected.push_back({c.op + " on special values, " + name(dtype), expected[i],
                              budgetOfSpecialValues(c.op, dtype)});
  batch.inputs = made.inputs;
  batch.module = std::move(made.module);
  return batch;
}

// Elementwise ops on what rounding, overflow and IEEE 754 make special, in all combinations.
class SpecialValuesTest : public ConformanceTest {};

TEST_P(SpecialValuesTest, MatchTheReference) {
  const auto &[variant, op] = GetParam();
  Batches &batches = Batches::of(op);
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> floats = {0.0,   -0.0,   1,     -1,   0.5,         -2,   3,
                                      1e-30, -1e-30, 1e-40, 1e30, -1e30,       88.7, -104,
                                      1e4,   -1e4,   inf,   -inf, std::nan("")};
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
  for (const DTypeInfo &info : kDTypes) {
    DType dtype = info.dtype;
    int64_t values = is_floating(dtype)      ? floats.size()
                     : dtype == DType::kBool ? 2
                                             : integers.size();
    // One call for each set of attributes and result dtype, its shape made to hold all
    // combinations.
    std::map<std::string, OpCase> cases;
    for (OpCase c : batches.cases) {
      int64_t n = 1;
      for (size_t i = 0; i < c.operands.size(); ++i)
        n *= values;
      for (TensorSpec &operand : c.operands)
        operand.shape = {n};
      for (TensorSpec &result : c.results)
        result.shape = {n};
      cases.try_emplace(
          c.attributes + (c.results.empty() ? "" : name(c.results[0].dtype.value_or(dtype))), c);
    }
    for (const auto &[key, c] : cases) {
      const Batch &batch = batches.of(dtype, key, [&, &c = c] {
        return specialBatch(batches.context, c, dtype, floats, integers, values);
      });
      if (!batch.module)
        continue;
      check(batch, variant, dtype, op + " in " + name(dtype));
      if (HasFatalFailure() || IsSkipped())
        return;
    }
  }
  compareRefusals(variant.name, op);
}

std::vector<std::string> elementwiseOps() {
  std::vector<std::string> names = ops();
  llvm::erase_if(names,
                 [](const std::string &op) { return rowOf(op).kind != ir::Kind::Elementwise; });
  return names;
}

std::string testName(const testing::TestParamInfo<std::tuple<Variant, std::string>> &info) {
  std::string text = std::get<0>(info.param).name + "_" + std::get<1>(info.param).substr(5);
  for (char &c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return text;
}

// The variants of an op follow one another in one shard, where they share what is evaluated, and
// kernels that are the same. GoogleTest gives each shard every so many-th case.
std::vector<std::tuple<Variant, std::string>> parameters(const std::vector<std::string> &ops) {
  const char *given = std::getenv("TEST_TOTAL_SHARDS");
  size_t shards = std::max(1, given ? std::atoi(given) : 1);
  std::vector<std::tuple<Variant, std::string>> all;
  for (size_t first = 0; first < ops.size(); first += shards)
    for (const Variant &variant : variants())
      for (size_t i = first; i < std::min(first + shards, ops.size()); ++i)
        all.emplace_back(variant, ops[i]);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTest, testing::ValuesIn(parameters(ops())), testName);
INSTANTIATE_TEST_SUITE_P(Backends, SpecialValuesTest,
                         testing::ValuesIn(parameters(elementwiseOps())), testName);

TEST(ConformanceTable, EveryOpHasARow) {
  for (const std::string &op : ops())
    EXPECT_STREQ(rowOf(op).mnemonic, op.substr(5).c_str());
}

} // namespace
} // namespace weft::tests
