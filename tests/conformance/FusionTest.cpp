// Random programs of elementwise ops, broadcasts and row reductions: whatever a compiling backend
// makes of them (fused or op by op, in place or not, one thread or two), the results are the same
// bit for bit.
#include <random>

#include "dialects/weft/ir/OpTable.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Verifier.h"
#include "tests/support/BackendRun.h"
#include "tests/support/Compare.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;
using ir::Val;
using Tensors = std::vector<HostTensor>;

constexpr int kPrograms = 12, kOps = 24;

std::vector<std::string> compilingBackends() {
  std::vector<std::string> names;
  for (const std::string &name : compiler::backendNames())
    if (name != "reference" && !llvm::StringRef(name).ends_with("unfused"))
      names.push_back(name);
  return names;
}

class FusionTest : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    prepare(context);
    for (const ir::OpRow &row : ir::opTable()) {
      std::string name = std::string("weft.") + row.mnemonic;
      mlir::OperationName op(name, &context);
      if (row.kind != ir::Kind::Elementwise ||
          !op.hasTrait<mlir::OpTrait::SameOperandsAndResultType>())
        continue;
      bool onFloats = llvm::StringRef(row.operands).starts_with("floating") ||
                      llvm::StringRef(row.operands).starts_with("numeric");
      if (onFloats)
        elementwise.push_back({name, op.hasTrait<mlir::OpTrait::OneOperand>() ? 1 : 2});
    }
    ASSERT_GT(elementwise.size(), 10u);
  }

  // A program over rows x columns, a row, a column and a number, in the given dtype.
  mlir::OwningOpRef<mlir::ModuleOp> makeProgram(unsigned seed, DType dtype, Tensors &inputs) {
    std::mt19937 random(seed);
    auto pick = [&](size_t n) {
      return static_cast<size_t>(random() % n);
    };
    int64_t rows = 1 + random() % 60, columns = 1 + random() % 140;
    if (seed % 4 == 3)
      rows *= 37, columns *= 5; // enough for several threads
    mlir::OpBuilder b(&context);
    mlir::Location loc = b.getUnknownLoc();
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(b, loc);
    b.setInsertionPointToEnd(module->getBody());
    mlir::Type element = ir::elementType(dtype, &context);
    std::vector<std::vector<int64_t>> shapes = {
        {rows, columns}, {rows, columns}, {columns}, {rows, 1}, {}};
    llvm::SmallVector<mlir::Type> types;
    for (size_t i = 0; i < shapes.size(); ++i) {
      types.push_back(mlir::RankedTensorType::get(shapes[i], element));
      inputs.push_back(sample({shapes[i]}, dtype, i, shapes.size()));
    }
    auto main = mlir::func::FuncOp::create(b, loc, "main", b.getFunctionType(types, {}));
    b.setInsertionPointToStart(main.addEntryBlock());
    std::vector<Val> values;
    for (mlir::Value argument : main.getArguments())
      values.push_back(broadcast(Val(b, loc, argument), {rows, columns}));
    for (int i = 0; i < kOps; ++i) {
      // Mostly of the latest values, so that chains grow.
      auto operand = [&] {
        return values[random() % 3 ? values.size() - 1 - pick(std::min<size_t>(4, values.size()))
                                   : pick(values.size())];
      };
      size_t kind = pick(10);
      if (kind < 6) {
        const auto &[name, arity] = elementwise[pick(elementwise.size())];
        mlir::OperationState state(loc, name);
        Val first = operand();
        state.addOperands(first.value());
        if (arity == 2)
          state.addOperands(operand().value());
        state.addTypes(first.type());
        values.push_back(first.at(b.create(state)->getResult(0)));
      } else if (kind == 6) {
        values.push_back(select(compare("lt", operand(), operand()), operand(), operand()));
      } else if (kind == 7) {
        Val x = operand();
        values.push_back(cast(cast(x, b.getI32Type()), element));
      } else {
        Val x = operand();
        Val reduced = kind == 8 ? sum(x, {1}, true) : max(x, {1}, true);
        values.push_back(x - broadcast(reduced, {rows, columns}));
      }
    }
    llvm::SmallVector<mlir::Value> results;
    for (int i = 0; i < 3; ++i)
      results.push_back(values[values.size() - 1 - 3 * i]);
    mlir::func::ReturnOp::create(b, loc, results);
    main.setType(b.getFunctionType(types, mlir::ValueRange(results).getTypes()));
    EXPECT_TRUE(succeeded(mlir::verify(*module)));
    return module;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::vector<std::pair<std::string, int>> elementwise;
};

TEST_P(FusionTest, ResultsDoNotDependOnHowTheyAreComputed) {
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    Tensors inputs;
    constexpr DType kOfSeed[] = {DType::kFloat32, DType::kFloat16,  DType::kFloat64,
                                 DType::kFloat32, DType::kBFloat16, DType::kFloat64};
    DType dtype = kOfSeed[seed % 6];
    mlir::OwningOpRef<mlir::ModuleOp> module = makeProgram(seed, dtype, inputs);
    Variant fused{"fused", GetParam()}, unfused = fused, apart = fused;
    unfused.name = "unfused";
    unfused.options.fuse = false;
    apart.name = "not in place";
    apart.options.inPlace = false;
    std::vector<Variant> variants = {unfused, fused, apart};
    if (std::optional<std::string> features = narrowFeatures(); features && GetParam() == "cpu") {
      variants.push_back({"with 256-bit vectors", GetParam()});
      variants.back().options.features = *features;
    }
    Tensors expected;
    for (const Variant &variant : variants)
      for (int threads : {1, 2}) {
        auto executable = compile(*module, variant);
        ASSERT_TRUE(executable.ok())
            << "program " << seed << ", " << variant.name << ": " << executable.status();
        auto results = run(*executable, inputs, threads);
        ASSERT_TRUE(results.ok()) << "program " << seed << ", " << variant.name << ": "
                                  << results.status();
        if (expected.empty())
          expected = *results;
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_EQ(compareExact((*results)[i], expected[i]), "")
              << "program " << seed << ", result " << i << ": " << variant.name << " on " << threads
              << " threads differs from unfused on one";
      }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FusionTest);
INSTANTIATE_TEST_SUITE_P(Backends, FusionTest, testing::ValuesIn(compilingBackends()));

} // namespace
} // namespace weft::tests
