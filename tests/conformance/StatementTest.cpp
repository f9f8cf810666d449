// Every op's index statement against its reference evaluation: it names all that is read, and the
// op in parts along a dim gives what the whole op gives.
#include <algorithm>
#include <numeric>
#include <set>

#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Verifier.h"
#include "tests/support/Compare.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::Cut;
using ir::Fold;
using ir::HostTensor;
using ir::IndexStatement;
using ir::Position;
using ir::Positions;
using ir::Purpose;
using Tensors = std::vector<HostTensor>;

// Points that a test visits one by one.
constexpr int64_t kMostPoints = 200'000;
// Elements of an operand that are changed, one at a time.
constexpr int64_t kChanged = 16;

std::vector<int64_t> sizesOf(const IndexStatement &statement) {
  std::vector<int64_t> sizes;
  for (const ir::IndexDim &dim : statement.dims)
    sizes.push_back(dim.size.size);
  return sizes;
}
int64_t numPoints(const IndexStatement &statement) {
  std::vector<int64_t> sizes = sizesOf(statement);
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

// Row-major; -1 where a position lies outside of the shape, or at none.
int64_t elementAt(const Positions &positions, llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<int64_t> point) {
  int64_t element = 0;
  for (auto [position, size] : llvm::zip_equal(positions, shape)) {
    int64_t at = position.offset;
    for (auto [dim, scale] : position.terms)
      at += scale * point[dim];
    if (at < 0 || (position.exact && at % position.divisor))
      return -1;
    at /= position.divisor;
    if (position.modulus)
      at %= position.modulus;
    if (at >= size)
      return -1;
    element = element * size + at;
  }
  return element;
}

// The tensor's dims whose position is that of a carried dim, at which a result reads all.
std::vector<bool> carriedDims(const IndexStatement &statement, const Positions &positions) {
  std::vector<bool> carried;
  for (const Position &position : positions)
    carried.push_back(llvm::any_of(position.terms, [&](Position::Term term) {
      return statement.dims[term.dim].purpose == Purpose::Carried;
    }));
  return carried;
}
// The element with position 0 along those dims.
int64_t withoutCarried(int64_t element, llvm::ArrayRef<int64_t> shape,
                       const std::vector<bool> &carried) {
  int64_t result = 0, stride = 1;
  for (size_t i = shape.size(); i-- > 0; element /= shape[i]) {
    result += carried[i] ? 0 : element % shape[i] * stride;
    stride *= shape[i];
  }
  return result;
}

template <typename Visit> void visitPoints(const IndexStatement &statement, Visit visit) {
  std::vector<int64_t> sizes = sizesOf(statement), point(sizes.size(), 0);
  for (int64_t left = numPoints(statement); left > 0; --left) {
    visit(point);
    for (size_t i = sizes.size(); i-- > 0 && ++point[i] == sizes[i];)
      point[i] = 0;
  }
}

// Another value that the case's operand may hold.
void change(HostTensor &tensor, int64_t i, const TensorSpec &spec) {
  switch (spec.values) {
  case Values::Numbers: {
    double now = tensor.getDouble(i), middle = (spec.low + spec.high) / 2;
    tensor.set(i, is_floating(tensor.dtype) ? (now + spec.high) / 2 + (now == spec.high ? -1 : 0)
                                            : (now == middle ? spec.high : middle));
    if (tensor.getDouble(i) == now)
      tensor.set(i, now + 1);
    break;
  }
  case Values::Dominant:
    tensor.set(i, tensor.getDouble(i) + 0.1);
    break;
  case Values::Indices:
    tensor.setInt(i, (tensor.getInt(i) + 1) % std::max<int64_t>(spec.limit, 1));
    break;
  case Values::Booleans:
    tensor.setInt(i, !tensor.getInt(i));
    break;
  case Values::State:
    tensor.setInt(i, tensor.getInt(i) + 1);
    break;
  case Values::Listed:
    tensor.setInt(i, spec.list[(i + 1) % spec.list.size()]);
    break;
  }
}

class StatementTest : public testing::TestWithParam<std::string> {
protected:
  StatementTest() {
    context.loadDialect<ir::WeftDialect>();
  }
  ir::Kind kind() {
    return mlir::OperationName(GetParam(), &context).getInterface<ir::WeftOp>()->kind();
  }
  // Calls visit(case, module, statement) for the op's cases, in the first dtype that each takes.
  template <typename Visit> void forCases(Visit visit) {
    for (const OpCase &c : allCases(context)) {
      if (c.op != GetParam())
        continue;
      for (DType dtype : {DType::kFloat32, DType::kInt64, DType::kBool, DType::kInt32}) {
        OpModule made = buildModule(context, c, dtype);
        if (!made)
          continue;
        std::optional<IndexStatement> statement = ir::statementOf(made.op);
        ASSERT_TRUE(statement) << c.name() << " has no statement";
        SCOPED_TRACE(c.name() + ": " + ir::textOf(*statement));
        visit(c, made, *statement);
        break;
      }
    }
  }
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_P(StatementTest, HasAPositionForEachDimOfEachTensor) {
  forCases([&](const OpCase &, OpModule &made, const IndexStatement &statement) {
    auto check = [&](llvm::ArrayRef<Positions> all, mlir::TypeRange types) {
      ASSERT_EQ(all.size(), types.size());
      for (auto [positions, type] : llvm::zip(all, types)) {
        EXPECT_EQ(static_cast<int64_t>(positions.size()),
                  mlir::cast<mlir::RankedTensorType>(type).getRank());
        for (const Position &position : positions) {
          EXPECT_TRUE(position.divisor > 0 && position.modulus >= 0);
          for (auto [dim, scale] : position.terms) {
            EXPECT_LT(static_cast<size_t>(dim), statement.dims.size());
            EXPECT_NE(scale, 0);
          }
        }
      }
    };
    check(statement.operands, made.op->getOperandTypes());
    check(statement.results, made.op->getResultTypes());
  });
}

// What data choose may lie outside: a run must be able to end there, before anything is written.
TEST_P(StatementTest, WhatDataChooseIsChecked) {
  forCases([&](const OpCase &, OpModule &made, const IndexStatement &statement) {
    bool chosen = llvm::any_of(statement.dims,
                               [](const auto &dim) { return dim.purpose == Purpose::Chosen; });
    if (chosen)
      EXPECT_TRUE(ir::indexBounds(made.op).has_value());
  });
}

TEST_P(StatementTest, EachElementOfAResultStandsAtAPoint) {
  forCases([&](const OpCase &, OpModule &made, const IndexStatement &statement) {
    if (numPoints(statement) > kMostPoints || numPoints(statement) == 0)
      return;
    for (auto [positions, value] : llvm::zip_equal(statement.results, made.op->getResults())) {
      auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
      std::vector<bool> seen(type.getNumElements(), false);
      visitPoints(statement, [&](llvm::ArrayRef<int64_t> point) {
        if (int64_t element = elementAt(positions, type.getShape(), point); element >= 0)
          seen[element] = true;
      });
      // The gradient of windows is 0 where no window lies.
      bool sums = llvm::any_of(positions, [](const Position &p) { return p.terms.size() > 1; }) &&
                  statement.fold != Fold::None;
      if (!sums)
        EXPECT_TRUE(llvm::all_of(seen, [](bool it) { return it; }));
    }
  });
}

TEST_P(StatementTest, NamesWhatIsRead) {
  int64_t changes = 0;
  bool moves = kind() == ir::Kind::Movement;
  forCases([&](const OpCase &c, OpModule &made, const IndexStatement &statement) {
    if (numPoints(statement) > kMostPoints || numPoints(statement) == 0)
      return;
    std::string error;
    Tensors expected = evaluate(made.main, made.inputs, error);
    ASSERT_EQ(error, "");
    for (size_t i = 0; i < made.inputs.size(); ++i) {
      const HostTensor &input = made.inputs[i];
      // For each result: which of its elements (carried dims apart) read which of the operand's.
      std::vector<std::set<std::pair<int64_t, int64_t>>> reads(expected.size());
      std::vector<std::vector<bool>> carried;
      for (const Positions &positions : statement.results)
        carried.push_back(carriedDims(statement, positions));
      visitPoints(statement, [&](llvm::ArrayRef<int64_t> point) {
        int64_t from = elementAt(statement.operands[i], input.shape, point);
        if (from < 0)
          return;
        std::vector<int64_t> first(point.begin(), point.end());
        for (auto [d, dim] : llvm::enumerate(statement.dims))
          if (dim.purpose == Purpose::Carried)
            first[d] = 0;
        for (size_t r = 0; r < expected.size(); ++r)
          if (int64_t to = elementAt(statement.results[r], expected[r].shape, first); to >= 0)
            reads[r].insert({from, to});
      });
      int64_t step = std::max<int64_t>(1, input.size() / kChanged);
      for (int64_t from = 0; from < input.size(); from += step) {
        Tensors inputs = made.inputs;
        change(inputs[i], from, c.operands[i]);
        Tensors actual = evaluate(made.main, inputs, error);
        ASSERT_EQ(error, "");
        for (size_t r = 0; r < expected.size(); ++r)
          for (int64_t to = 0; to < expected[r].size(); ++to) {
            size_t width = expected[r].bytes.size() / expected[r].size();
            bool changed = !std::equal(actual[r].bytes.begin() + to * width,
                                       actual[r].bytes.begin() + (to + 1) * width,
                                       expected[r].bytes.begin() + to * width);
            bool named = reads[r].count({from, withoutCarried(to, expected[r].shape, carried[r])});
            changes += changed;
            ASSERT_TRUE(named || !changed)
                << "element " << to << " of result " << r << " changes with element " << from
                << " of operand " << i << ", which the statement does not name";
            // What only moves is named exactly; a base is not read where something is inserted.
            if (moves && i + 1 == made.inputs.size())
              ASSERT_EQ(named, changed)
                  << "element " << to << " of result " << r << ", element " << from;
          }
      }
    }
  });
  bool reads = GetParam() != "weft.constant" && GetParam() != "weft.iota";
  EXPECT_EQ(changes > 0, reads);
}

// A part of a tensor along a dim, and back.
HostTensor partOf(const HostTensor &whole, int64_t dim, int64_t part, int64_t parts) {
  HostTensor result = whole;
  result.shape[dim] /= parts;
  int64_t inner = 1, width = whole.bytes.size() / whole.size();
  for (size_t i = dim; i < result.shape.size(); ++i)
    inner *= result.shape[i];
  int64_t outer = whole.size() / parts / inner;
  result.bytes.resize(whole.bytes.size() / parts);
  for (int64_t o = 0; o < outer; ++o)
    std::copy_n(whole.bytes.begin() + (o * parts + part) * inner * width, inner * width,
                result.bytes.begin() + o * inner * width);
  return result;
}
HostTensor joined(const Tensors &parts, int64_t dim) {
  HostTensor result = parts[0];
  result.shape[dim] *= static_cast<int64_t>(parts.size());
  result.bytes.clear();
  int64_t inner = parts[0].bytes.size() / parts[0].size();
  for (size_t i = dim; i < parts[0].shape.size(); ++i)
    inner *= parts[0].shape[i];
  for (size_t at = 0; at < parts[0].bytes.size(); at += inner)
    for (const HostTensor &part : parts)
      result.bytes.insert(result.bytes.end(), part.bytes.begin() + at,
                          part.bytes.begin() + at + inner);
  return result;
}
HostTensor folded(const Tensors &parts, Fold fold) {
  HostTensor result = parts[0];
  for (int64_t i = 0; i < result.size(); ++i) {
    double value = parts[0].getDouble(i);
    for (size_t p = 1; p < parts.size(); ++p) {
      double other = parts[p].getDouble(i);
      value = fold == Fold::Product ? value * other
              : fold == Fold::Max   ? std::max(value, other)
              : fold == Fold::Min   ? std::min(value, other)
                                    : value + other;
    }
    result.set(i, fold == Fold::Mean ? value / static_cast<double>(parts.size()) : value);
  }
  return result;
}

TEST_P(StatementTest, PartsGiveTheWhole) {
  int cuts = 0;
  forCases([&](const OpCase &, OpModule &made, const IndexStatement &statement) {
    std::string error;
    Tensors expected = evaluate(made.main, made.inputs, error);
    ASSERT_EQ(error, "");
    for (auto [d, dim] : llvm::enumerate(statement.dims)) {
      std::optional<Cut> cut = ir::cutAlong(statement, static_cast<int32_t>(d), made.op);
      int64_t size = dim.size.size, parts = 2;
      auto hasNone = [](const HostTensor &tensor) {
        return tensor.size() == 0;
      };
      bool isEmpty = llvm::any_of(made.inputs, hasNone) || llvm::any_of(expected, hasNone);
      if (!cut || isEmpty || size < 2 || numPoints(statement) > kMostPoints ||
          numPoints(statement) == 0)
        continue;
      while (size % parts)
        ++parts;
      SCOPED_TRACE("dim " + dim.name.str());
      ++cuts;
      mlir::OpBuilder builder(&context);
      builder.setInsertionPointToEnd(made.module->getBody());
      std::vector<Tensors> partial(expected.size());
      mlir::func::FuncOp function;
      for (int64_t part = 0; part < parts; ++part) {
        Tensors inputs = made.inputs;
        llvm::SmallVector<mlir::Type> types;
        for (auto [input, along] : llvm::zip_equal(inputs, cut->operands)) {
          if (along >= 0)
            input = partOf(input, along, part, parts);
          types.push_back(typeOf(input, context));
        }
        if (!function) {
          mlir::OpBuilder::InsertionGuard guard(builder);
          function = mlir::func::FuncOp::create(builder, made.op->getLoc(), "part",
                                                builder.getFunctionType(types, {}));
          builder.setInsertionPointToStart(function.addEntryBlock());
          mlir::Operation *op =
              ir::buildPart(builder, made.op, *cut, parts, function.getArguments());
          mlir::func::ReturnOp::create(builder, made.op->getLoc(), op->getResults());
          function.setType(builder.getFunctionType(types, op->getResultTypes()));
          ASSERT_TRUE(succeeded(mlir::verify(function)));
        }
        Tensors results = evaluate(function, inputs, error);
        ASSERT_EQ(error, "");
        for (size_t r = 0; r < results.size(); ++r)
          partial[r].push_back(results[r]);
      }
      function.erase();
      for (size_t r = 0; r < expected.size(); ++r) {
        if (cut->fold == Fold::None) {
          EXPECT_EQ(compareExact(joined(partial[r], cut->results[r]), expected[r]), "");
          continue;
        }
        double largest = 1;
        for (int64_t i = 0; i < expected[r].size(); ++i)
          largest = std::max(largest, std::abs(expected[r].getDouble(i)));
        EXPECT_EQ(compareWithin(folded(partial[r], cut->fold), expected[r], 0, {largest * 1e-5}),
                  "");
      }
    }
  });
  if (kind() == ir::Kind::Elementwise || kind() == ir::Kind::Contraction ||
      kind() == ir::Kind::Reduction || kind() == ir::Kind::Scan)
    EXPECT_GT(cuts, 0);
}

// What has a statement; the others say why they have none.
std::vector<std::string> statedOps() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::vector<std::string> ops;
  for (const std::string &op : opsWithCases(context))
    if (mlir::OperationName(op, &context)
            .getInterface<ir::WeftOp>()
            ->missingRule(ir::RuleKind::Statement)
            .empty())
      ops.push_back(op);
  return ops;
}
INSTANTIATE_TEST_SUITE_P(Ops, StatementTest, testing::ValuesIn(statedOps()),
                         [](const testing::TestParamInfo<std::string> &info) {
                           return llvm::StringRef(info.param).drop_front(5).str();
                         });

} // namespace
} // namespace weft::tests
