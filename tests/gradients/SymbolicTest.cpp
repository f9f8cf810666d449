// Derivatives and decompositions of functions with symbolic dims: evaluated at some size, they are
// what the static functions of that size give.
#include "compiler/graph/Differentiate.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tests/support/Compare.h"
#include "tests/support/OpModule.h"
#include "gtest/gtest.h"

namespace weft::tests {
namespace {

using ir::HostTensor;

struct Program {
  const char *name;
  const char *text; // of a function, from its arguments on
};

// N is the symbolic size.
const Program kPrograms[] = {
    {"mul", "(%x: tensor<Nx4xf64>, %y: tensor<Nx4xf64>) -> tensor<Nx4xf64> { %r = weft.mul %x, %y "
            ": tensor<Nx4xf64> return %r : "
            "tensor<Nx4xf64> }"},
    {"broadcast", "(%x: tensor<4xf64>, %y: tensor<Nx4xf64>) -> tensor<Nx4xf64> { %b = "
                  "weft.broadcast %x : tensor<4xf64> to tensor<Nx4xf64>"
                  " %r = weft.mul %b, %y : tensor<Nx4xf64> return %r : tensor<Nx4xf64> }"},
    {"reduce_mean", "(%x: tensor<Nx4xf64>) -> tensor<4xf64> { %r = weft.reduce_mean %x, dims = [0] "
                    ": tensor<Nx4xf64> return %r : tensor<4xf64> }"},
    {"reduce_max", "(%x: tensor<Nx4xf64>) -> tensor<Nxf64> { %r = weft.reduce_max %x, dims = [1] : "
                   "tensor<Nx4xf64> return %r : tensor<Nxf64> }"},
    {"reduce_min", "(%x: tensor<Nx4xf64>) -> tensor<Nxf64> { %r = weft.reduce_min %x, dims = [1] : "
                   "tensor<Nx4xf64> return %r : tensor<Nxf64> }"},
    {"reduce_prod", "(%x: tensor<Nx4xf64>) -> tensor<4xf64> { %r = weft.reduce_prod %x, dims = [0] "
                    ": tensor<Nx4xf64> return %r : tensor<4xf64> }"},
    {"cumsum", "(%x: tensor<Nx4xf64>) -> tensor<Nx4xf64> { %r = weft.cumsum %x, dim = 0 : "
               "tensor<Nx4xf64> return %r : tensor<Nx4xf64> }"},
    {"expm1", "(%x: tensor<Nx4xf64>) -> tensor<Nx4xf64> { %r = weft.expm1 %x : tensor<Nx4xf64> "
              "return %r : tensor<Nx4xf64> }"},
    {"rem", "(%x: tensor<Nxf64>, %y: tensor<Nxf64>) -> tensor<Nxf64> { %r = weft.rem %x, %y : "
            "tensor<Nxf64> return %r : tensor<Nxf64> }"},
    {"floor", "(%x: tensor<Nxf64>) -> tensor<Nxf64> { %r = weft.floor %x : tensor<Nxf64> return %r "
              ": tensor<Nxf64> }"},
    {"arg_max", "(%x: tensor<Nx4xf64>) -> tensor<Nx4xf64> { %i = weft.arg_max %x, dim = 0 : "
                "tensor<Nx4xf64> %c = weft.cast %i : tensor<4xi64> to"
                " tensor<4xf64> %b = weft.broadcast %c : tensor<4xf64> to tensor<Nx4xf64> %r = "
                "weft.mul %x, %b : tensor<Nx4xf64> return %r :"
                " tensor<Nx4xf64> }"},
    {"index_put", "(%x: tensor<Nx4xf64>, %y: tensor<Nx2xf64>) -> tensor<Nx4xf64> { %i = "
                  "weft.constant dense<[1, 3]> : tensor<2xi64>"
                  " %r = weft.index_put %x, %i, %y, dim = 1 : tensor<Nx4xf64>, tensor<2xi64>, "
                  "tensor<Nx2xf64> return %r : tensor<Nx4xf64> }"},
    {"softmax", "(%x: tensor<Nx4xf64>) -> tensor<Nx4xf64> { %r = weft.softmax %x, dim = 0 : "
                "tensor<Nx4xf64> return %r : tensor<Nx4xf64> }"},
    {"matmul", "(%x: tensor<Nx2x4xf64>, %y: tensor<4x5xf64>) -> tensor<Nx2x5xf64> { %r = "
               "weft.matmul %x, %y : tensor<Nx2x4xf64>,"
               " tensor<4x5xf64> return %r : tensor<Nx2x5xf64> }"},
    {"layer_norm",
     "(%x: tensor<Nx4xf64>, %w: tensor<4xf64>) -> tensor<Nx4xf64> { %r, %m, %s = weft.layer_norm "
     "%x weight %w"
     " {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<Nx4xf64>, tensor<4xf64>) ->"
     " (tensor<Nx4xf64>, tensor<Nxf64>, tensor<Nxf64>) return %r : tensor<Nx4xf64> }"},
    {"attention",
     "(%q: tensor<Nx4xf64>, %k: tensor<Nx4xf64>, %v: tensor<Nx2xf64>) -> tensor<Nx2xf64> { %r, %l "
     "= weft.attention %q, %k, %v"
     " {causal = true, scale = 0.5 : f64} : (tensor<Nx4xf64>, tensor<Nx4xf64>, tensor<Nx2xf64>) ->"
     " (tensor<Nx2xf64>, tensor<Nxf64>) return %r : tensor<Nx2xf64> }"},
    {"cross_entropy", "(%x: tensor<Nx4xf64>, %t: tensor<Nxi64>) -> tensor<Nxf64> { %r, %l = "
                      "weft.cross_entropy %x, %t : tensor<Nx4xf64>,"
                      " tensor<Nxi64> return %r : tensor<Nxf64> }"},
    {"index_select", "(%x: tensor<4x2xf64>, %i: tensor<Nxi64>) -> tensor<Nx2xf64> { %r = "
                     "weft.index_select %x, %i, dim = 0 : tensor<4x2xf64>,"
                     " tensor<Nxi64> return %r : tensor<Nx2xf64> }"},
    {"gather", "(%x: tensor<Nx2xf64>, %i: tensor<Nx2xi64>) -> tensor<Nx2xf64> { %r = weft.gather "
               "%x, %i, dim = 1 : tensor<Nx2xf64>,"
               " tensor<Nx2xi64> return %r : tensor<Nx2xf64> }"},
    {"pow", "(%x: tensor<Nxf64>, %y: tensor<Nxf64>) -> tensor<Nxf64> { %r = weft.pow %x, %y : "
            "tensor<Nxf64> return %r : tensor<Nxf64> }"},
};

// Writes each tensor<N..> as a symbolic type, or with the number 3.
std::string spell(const char *program, bool symbolic) {
  std::string from = std::string("func.func @f") + program, text;
  for (size_t i = 0; i < from.size();) {
    if (from.compare(i, 8, "tensor<N") != 0) {
      text += from[i++];
      continue;
    }
    size_t end = from.find('>', i);
    std::string rest = from.substr(i + 8, end - i - 8); // x4xf64
    std::string names = "n";
    for (size_t at = rest.find('x'); at != std::string::npos && std::isdigit(rest[at + 1]);
         at = rest.find('x', at + 1))
      names += ", _";
    text += symbolic ? "tensor<?" + rest + ", #weft.dims<" + names + ">>" : "tensor<3" + rest + ">";
    i = end + 1;
  }
  return text;
}

class SymbolicTest : public testing::TestWithParam<Program> {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::string error;

  // What @f, its decomposition and its derivative give; the inputs come from the static spelling's
  // types.
  std::vector<HostTensor> run(bool symbolic, bool decompose) {
    context.loadDialect<ir::WeftDialect, mlir::func::FuncDialect>();
    auto module =
        mlir::parseSourceString<mlir::ModuleOp>(spell(GetParam().text, symbolic), &context);
    auto sizes = mlir::parseSourceString<mlir::ModuleOp>(spell(GetParam().text, false), &context);
    if (!module || !sizes)
      return {};
    auto derivative = compiler::differentiate(*module->getOps<mlir::func::FuncOp>().begin(), {});
    auto sized = compiler::differentiate(*sizes->getOps<mlir::func::FuncOp>().begin(), {});
    if (failed(derivative) || failed(sized))
      return {};
    mlir::Block &block = derivative->getBody().front();
    for (auto it = block.begin(); decompose && it != block.end();) {
      auto op = mlir::dyn_cast<ir::WeftOp>(&*it++);
      if (!op || !op.missingRule(ir::RuleKind::Decomposition).empty())
        continue;
      mlir::OpBuilder builder(op);
      auto values = op.decompose(builder);
      if (failed(values))
        return {};
      op->replaceAllUsesWith(*values);
      op->erase();
    }
    if (failed(mlir::verify(*module)))
      return {};
    std::vector<HostTensor> inputs;
    for (auto [i, type] : llvm::enumerate(sized->getArgumentTypes())) {
      auto tensor = mlir::cast<mlir::RankedTensorType>(type);
      bool indices = tensor.getElementType().isInteger(64);
      TensorSpec spec{tensor.getShape().vec(),
                      ir::dtypeOf(tensor.getElementType()),
                      indices ? Values::Indices : Values::Numbers,
                      0.3,
                      2,
                      2};
      inputs.push_back(sample(spec, DType::kFloat64, i, 4));
    }
    return evaluate(*derivative, inputs, error);
  }
};

TEST_P(SymbolicTest, GivesWhatTheStaticFunctionGives) {
  std::vector<HostTensor> expected = run(false, false);
  ASSERT_FALSE(expected.empty()) << error;
  for (bool decompose : {false, true}) {
    std::vector<HostTensor> actual = run(true, decompose);
    ASSERT_EQ(error, "");
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i)
      EXPECT_EQ(compareWithin(actual[i], expected[i], 0, {1e-13}), "") << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, SymbolicTest, testing::ValuesIn(kPrograms),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace weft::tests
