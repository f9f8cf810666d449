// Every op on operands that are cut over a mesh at random: what the ranks compute, with exchanges
// carried out between them, is what the op gives of whole operands.
#include <numeric>
#include <random>

#include "compiler/shard/Shard.h"
#include "dialects/weft/reference/Evaluation.h"
#include "tests/support/Compare.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using compiler::Axes;
using compiler::kWhole;
using compiler::MeshAxis;
using compiler::Sharder;
using ir::HostTensor;
using Tensors = std::vector<HostTensor>;

constexpr int kCutsOfACase = 24;
constexpr int64_t kMostElements = 5000; // of an operand: each rank is evaluated element by element

using Places = std::vector<MeshAxis>; // a rank's

// All ranks of a mesh, in row-major order.
std::vector<Places> ranksOf(llvm::ArrayRef<int64_t> sizes) {
  std::vector<Places> ranks(1);
  for (auto [i, size] : llvm::enumerate(sizes)) {
    std::vector<Places> more;
    for (const Places &rank : ranks)
      for (int64_t place = 0; place < size; ++place) {
        more.push_back(rank);
        std::string name = "axis" + std::to_string(i);
        more.back().push_back({name, name, place, size});
      }
    ranks = std::move(more);
  }
  return ranks;
}

// The elements [start, start + size) of a dim.
HostTensor slice(const HostTensor &x, int64_t dim, int64_t start, int64_t size) {
  HostTensor result = x;
  int64_t whole = x.shape[dim], width = byte_size(x.dtype), inner = width;
  for (size_t i = dim + 1; i < x.shape.size(); ++i)
    inner *= x.shape[i];
  result.shape[dim] = size;
  result.bytes.clear();
  for (size_t at = 0; at < x.bytes.size(); at += whole * inner)
    result.bytes.insert(result.bytes.end(), x.bytes.begin() + at + start * inner,
                        x.bytes.begin() + at + (start + size) * inner);
  return result;
}
HostTensor below(const Tensors &parts) {
  HostTensor result = parts[0];
  result.shape[0] *= static_cast<int64_t>(parts.size());
  for (size_t i = 1; i < parts.size(); ++i)
    result.bytes.insert(result.bytes.end(), parts[i].bytes.begin(), parts[i].bytes.end());
  return result;
}
HostTensor partOf(HostTensor x, const Axes &axes, const Places &rank) {
  for (auto [dim, axis] : llvm::enumerate(axes))
    if (axis != kWhole) {
      int64_t size = x.shape[dim] / rank[axis].ranks;
      x = slice(x, static_cast<int64_t>(dim), rank[axis].rank * size, size);
    }
  return x;
}

// What the collective gives the rank at `place` of those that have `inputs`.
HostTensor exchanged(mlir::Operation *op, const Tensors &inputs, int64_t place) {
  auto ranks = static_cast<int64_t>(inputs.size());
  if (mlir::isa<ir::AllGatherOp>(op))
    return below(inputs);
  if (mlir::isa<ir::AllToAllOp>(op)) {
    Tensors taken;
    int64_t rows = inputs[0].shape[0] / ranks;
    for (const HostTensor &input : inputs)
      taken.push_back(slice(input, 0, place * rows, rows));
    return below(taken);
  }
  ir::Reduction reduction = mlir::cast<ir::AllReduceOp>(op).getReduction();
  HostTensor result = inputs[0];
  for (int64_t i = 0; i < result.size(); ++i) {
    double value = inputs[0].getDouble(i);
    for (int64_t r = 1; r < ranks; ++r) {
      double other = inputs[r].getDouble(i);
      value = reduction == ir::Reduction::prod  ? value * other
              : reduction == ir::Reduction::max ? std::max(value, other)
              : reduction == ir::Reduction::min ? std::min(value, other)
                                                : value + other;
    }
    result.set(i, reduction == ir::Reduction::mean ? value / static_cast<double>(ranks) : value);
  }
  return result;
}

// The programs of all ranks: each is run up to its next exchange, which all carry out together.
class Ranks {
public:
  struct Rank {
    Places places;
    std::unique_ptr<mlir::Block> program = std::make_unique<mlir::Block>();
    llvm::DenseMap<mlir::Value, HostTensor> values;
    llvm::SmallVector<compiler::ShardedValue> results;
  };
  std::vector<Rank> all;

  // Fails where the ranks have different exchanges.
  void run() {
    std::vector<mlir::Block::iterator> next;
    for (Rank &rank : all)
      next.push_back(rank.program->begin());
    while (true) {
      for (size_t r = 0; r < all.size(); ++r)
        ASSERT_NO_FATAL_FAILURE(computeUpToExchange(all[r], next[r]));
      bool isAtEnd = next[0] == all[0].program->end();
      for (size_t r = 0; r < all.size(); ++r) {
        ASSERT_EQ(next[r] == all[r].program->end(), isAtEnd);
        ASSERT_TRUE(isAtEnd || next[r]->getName() == next[0]->getName());
      }
      if (isAtEnd)
        return;
      for (size_t r = 0; r < all.size(); ++r)
        ASSERT_NO_FATAL_FAILURE(exchange(next, r));
      llvm::for_each(next, [](auto &it) { ++it; });
    }
  }

private:
  void computeUpToExchange(Rank &rank, mlir::Block::iterator &next) {
    for (;
         next != rank.program->end() && mlir::cast<ir::WeftOp>(*next).kind() != ir::Kind::Exchange;
         ++next)
      ASSERT_NO_FATAL_FAILURE(compute(rank, &*next));
  }
  void compute(Rank &rank, mlir::Operation *op) {
    llvm::SmallVector<const HostTensor *> operands;
    Tensors results;
    for (mlir::Value operand : op->getOperands())
      operands.push_back(&rank.values[operand]);
    for (mlir::Type type : op->getResultTypes()) {
      auto tensor = mlir::cast<mlir::RankedTensorType>(type);
      results.emplace_back(ir::dtypeOf(tensor.getElementType()), tensor.getShape().vec());
    }
    ir::EvalContext context(op, operands, results);
    ASSERT_TRUE(succeeded(mlir::cast<ir::WeftOp>(op).evaluate(context)));
    for (auto [value, result] : llvm::zip_equal(op->getResults(), results))
      rank.values[value] = std::move(result);
  }
  void exchange(const std::vector<mlir::Block::iterator> &next, size_t self) {
    mlir::Operation *op = &*next[self];
    llvm::StringRef group = op->getAttrOfType<mlir::StringAttr>("group").getValue();
    const Places &own = all[self].places;
    Tensors inputs;
    int64_t place = -1;
    for (size_t r = 0; r < all.size(); ++r) {
      bool same = llvm::all_of(llvm::zip_equal(own, all[r].places), [&](auto pair) {
        const auto &[a, b] = pair;
        return a.name == group || a.rank == b.rank;
      });
      if (!same)
        continue;
      place = r == self ? static_cast<int64_t>(inputs.size()) : place;
      inputs.push_back(all[r].values[next[r]->getOperand(0)]);
    }
    ASSERT_EQ(static_cast<int64_t>(inputs.size()),
              op->getAttrOfType<mlir::IntegerAttr>("ranks").getInt());
    all[self].values[op->getResult(0)] = exchanged(op, inputs, place);
  }
};

class ShardTest : public testing::TestWithParam<std::string> {};

TEST_P(ShardTest, RanksTogetherGiveTheWhole) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>();
  std::mt19937 random(20);
  int cuts = 0;
  for (const OpCase &c : allCases(context)) {
    if (c.op != GetParam())
      continue;
    OpModule made;
    for (DType dtype : {DType::kFloat32, DType::kInt64, DType::kBool, DType::kInt32})
      if (!made)
        made = buildModule(context, c, dtype);
    if (!made || llvm::any_of(made.inputs, [](const HostTensor &x) {
          return x.size() == 0 || x.size() > kMostElements;
        }))
      continue;
    std::string error;
    Tensors expected = evaluate(made.main, made.inputs, error);
    ASSERT_EQ(error, "");
    for (int i = 0; i < kCutsOfACase; ++i) {
      const int64_t sizes[][2] = {{2, 2}, {2, 3}, {3, 2}, {4, 5}};
      std::vector<Places> places = ranksOf(sizes[random() % std::size(sizes)]);
      std::vector<Axes> axes;
      std::string text = c.name();
      bool isCut = false;
      for (const HostTensor &input : made.inputs) {
        Axes &own = axes.emplace_back(input.shape.size(), kWhole);
        text += " (";
        for (size_t dim = 0; dim < own.size(); ++dim) {
          auto axis = static_cast<int32_t>(random() % 3) - 1;
          if (axis != kWhole && !llvm::is_contained(own, axis) &&
              compiler::divides(places[0][axis], input.shape[dim])) {
            own[dim] = axis;
            isCut = true;
          }
          text += own[dim] == kWhole ? "-" : places[0][own[dim]].name;
        }
        text += ")";
      }
      if (!isCut)
        continue;
      SCOPED_TRACE(text);
      ++cuts;
      Ranks ranks;
      for (const Places &rank : places) {
        Ranks::Rank &own = ranks.all.emplace_back();
        own.places = rank;
        mlir::OpBuilder builder(&context);
        builder.setInsertionPointToEnd(own.program.get());
        Sharder sharder(builder, rank);
        mlir::OwningOpRef<mlir::func::FuncOp> copy(made.main.clone());
        mlir::Block &block = copy->getBody().front();
        for (auto [argument, input, cut] :
             llvm::zip_equal(block.getArguments(), made.inputs, axes)) {
          HostTensor part = partOf(input, cut, rank);
          mlir::Value value = own.program->addArgument(typeOf(part, context), argument.getLoc());
          own.values[value] = std::move(part);
          sharder.give(argument, {value, cut});
        }
        ASSERT_TRUE(succeeded(sharder.run(block)));
        for (mlir::Value result : block.getTerminator()->getOperands())
          own.results.push_back(sharder.at(result));
      }
      ranks.run();
      if (HasFatalFailure())
        return;
      for (Ranks::Rank &rank : ranks.all)
        for (auto [result, whole] : llvm::zip_equal(rank.results, expected)) {
          double largest = 1;
          for (int64_t e = 0; e < whole.size(); ++e)
            if (double each = std::abs(whole.getDouble(e)); std::isfinite(each))
              largest = std::max(largest, each);
          EXPECT_EQ(compareWithin(rank.values[result.part], partOf(whole, result.axes, rank.places),
                                  0, {largest * 1e-5}),
                    "");
        }
      for (Ranks::Rank &rank : ranks.all)
        rank.program->dropAllReferences();
    }
  }
  EXPECT_TRUE(cuts > 0 || GetParam() == "weft.constant" || GetParam() == "weft.iota" ||
              llvm::StringRef(GetParam()).starts_with("weft.random_"));
}

std::vector<std::string> ops() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  return opsWithCases(context);
}
INSTANTIATE_TEST_SUITE_P(Ops, ShardTest, testing::ValuesIn(ops()),
                         [](const testing::TestParamInfo<std::string> &info) {
                           return llvm::StringRef(info.param).drop_front(5).str();
                         });

} // namespace
} // namespace weft::tests
